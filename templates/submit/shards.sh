# Submits the three jobs of `data shard --array`, after folder.sh: the array waits for the plan, and the last job for the
# array, even if it fails. The first two name the last one in `finish`, which has the result of all. Arguments: the partition,
# and the index of the array's last element. Prints the three ids.
partition=$1 last=$2 folder=$jobs/$name
stage() {
  stage=$1 output=$2
  shift 2
  queue --partition="$partition" --job-name="shard-$stage" --chdir="$folder" --nodes=1 --ntasks=1 \
    --requeue --output="$folder/$output" --open-mode=append "$@" "$folder/shard.sbatch" "$folder" "$stage"
}
stage plan plan.txt --cpus-per-task=1
plan=$id
stage pack part-%a.txt --array="0-$last" --exclusive --dependency="afterok:$plan" --kill-on-invalid-dep=yes
array=$id
stage finish log.txt --cpus-per-task=1 --dependency="afterany:$plan:$array"
link
ln -sfn "../$name/plan" "by-id/$plan"
ln -sfn "../$name/parts" "by-id/$array"
echo "$id" | tee "$name/plan/finish" >"$name/parts/finish"
echo "$plan $array $id" | answer

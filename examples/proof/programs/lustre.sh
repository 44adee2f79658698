# Writes a file to Lustre and reads it back: all ranks into one folder.
set -euo pipefail
file=/fsx/proof/$SLURM_JOB_ID/$SLURM_PROCID
mkdir -p "${file%/*}"
head -c 1048576 /dev/urandom >"$file"
sum=$(sha256sum <"$file")
sync
[ "$sum" = "$(sha256sum <"$file")" ]
findmnt --noheadings --output FSTYPE,SOURCE,OPTIONS /fsx
echo "rank $SLURM_PROCID wrote and read $file"

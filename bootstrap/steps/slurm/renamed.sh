# The data volume may be restored from a snapshot of a cluster with another name. Its state and accounts then get this cluster's name:
# slurmctld refuses another one (CLUSTER NAME MISMATCH in controller.c: _verify_clustername), and slurmdbd's tables begin with it.
step_renamed() {
    local file=$DATA/slurm-state/clustername before id
    if [ ! -s "$file" ]; then return; fi
    IFS='|' read -r before id <"$file" || true
    if [ "$before" = "${CLUSTER,,}" ]; then return; fi
    say "the data volume is of the cluster $before: its queue and accounts become those of ${CLUSTER,,}"
    if [ "$ACCOUNTING" = local ]; then rename_accounts "$before" "${CLUSTER,,}"; fi
    forget_resources
    # Without a line's end, which slurmctld 23.11 would count as a part of the name.
    printf %s "${CLUSTER,,}${id:+|$id}" | put_file "$file" 0600 slurm:slurm
}

# rename_accounts BEFORE NOW: may be interrupted, and run again. slurmdbd does not run yet. The database has no table if the old
# cluster had its accounts on RDS, or none.
rename_accounts() {
    local any tables
    any=$(mariadb --skip-column-names slurm_acct_db <<<"SHOW TABLES LIKE 'cluster_table'")
    if [ -z "$any" ]; then return; fi
    tables=$(tables_of "$1" | mariadb --skip-column-names slurm_acct_db)
    renames "$1" "$2" "$tables" | mariadb slurm_acct_db
}

# tables_of CLUSTER: the query for them. The other tables are of all clusters, and a cluster may be called acct.
tables_of() {
    cat <<SQL
SELECT table_name FROM information_schema.tables
WHERE table_schema = 'slurm_acct_db' AND LEFT(table_name, $((${#1} + 1))) = '$1_' AND table_name NOT IN (
    'acct_coord_table', 'acct_table', 'clus_res_table', 'cluster_table', 'convert_version_table', 'federation_table',
    'qos_table', 'res_table', 'table_defs_table', 'tres_table', 'txn_table', 'user_table');
SQL
}

# renames BEFORE NOW TABLES: also the two columns with the name, as of accounting_storage_mysql.c in 23.11 and 24.11. slurmdbd
# writes table_defs_table anew.
renames() {
    local table
    for table in $3; do echo "RENAME TABLE \`$table\` TO \`$2_${table#"$1_"}\`;"; done
    cat <<SQL
UPDATE cluster_table SET name = '$2' WHERE name = '$1';
UPDATE clus_res_table SET cluster = '$2' WHERE cluster = '$1';
SQL
}

# File systems of jobs and what nodes have cost belong to the other cluster, which may still exist.
forget_resources() {
    rm -f "$DATA"/{spending.json,nodes.jsonl,nodes-now.json} /home/gpucluster/lustre/*/state.json
}

# Notes which database has slurmctld's accounts: the cluster's number comes from it, and must not be compared with another
# database's.
readonly DATABASE_IN_USE=$DATA/accounting

# Prints the database.
database() {
    sed -n 's/^StorageHost=//p' /etc/slurm/slurmdbd.conf
}

# Called once slurmctld runs with it.
note_database() {
    if [ "$ACCOUNTING" != off ]; then put_file "$DATABASE_IN_USE" 0644 root:root <<<"$(database)"; fi
}

# ask_accounting ARGUMENT...: sacctmgr. Its first line says what is wrong; the others repeat the arguments.
ask_accounting() {
    local errors said
    errors=$(mktemp)
    if timeout 30 sacctmgr -Q "$@" 2>"$errors" </dev/null; then
        rm -f "$errors"
        return
    fi
    said=$(head -n 1 "$errors")
    rm -f "$errors"
    fail "${said:-sacctmgr $* failed, or did not answer within 30 s}"
}

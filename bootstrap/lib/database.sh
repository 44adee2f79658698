# Which database slurmctld's accounts are in: its number is the database's, and another's must not be taken for it.
readonly DATABASE_IN_USE=$DATA/accounting

# Which one it is.
database() {
    sed -n 's/^StorageHost=//p' /etc/slurm/slurmdbd.conf
}

# Once slurmctld is up with it.
note_database() {
    if [ "$ACCOUNTING" != off ]; then put_file "$DATABASE_IN_USE" 0644 root:root <<<"$(database)"; fi
}

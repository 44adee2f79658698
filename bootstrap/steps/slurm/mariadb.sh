# The accounting database, if cluster.yaml has accounting: local. Its files are on the data volume.
readonly DATABASE=$DATA/mysql

step_mariadb() {
    local conf=/etc/mysql/mariadb.conf.d/90-gpucluster.cnf
    if [ "$ACCOUNTING" != local ]; then
        service_down mariadb
        return
    fi
    put_file "$conf" 0644 root:root <"$BUNDLE/slurm/mariadb.cnf"
    database_directory
    starts_again mariadb
    service_up mariadb "$conf" /etc/systemd/system/mariadb.service.d/gpucluster-restart.conf
    slurms_database | mariadb
}

# slurmdbd creates a missing database too, but ends after that with MariaDB's client 3.4.10 (Debian 13's update of MariaDB 11.8):
# a failed connection frees the options of mysql_init, and without them no result may have a column.
slurms_database() {
    cat <<'SQL'
CREATE USER IF NOT EXISTS slurm@localhost IDENTIFIED VIA unix_socket;
GRANT ALL ON slurm_acct_db.* TO slurm@localhost;
CREATE DATABASE IF NOT EXISTS slurm_acct_db;
SQL
}

# Mounted at a place where the package's unit, which hides /home, and AppArmor let the server write.
database_directory() {
    local live=/var/lib/mysql
    put_directory "$DATABASE" 0700 mysql:mysql
    database_owner
    # With the default dependencies it would start before local-fs.target, and its own requirements come after that.
    put_file /etc/systemd/system/var-lib-mysql.mount 0644 root:root <<UNIT
[Unit]
DefaultDependencies=no
Requires=gpucluster-home.service
After=gpucluster-home.service
Conflicts=umount.target
Before=umount.target

[Mount]
What=$DATABASE
Where=$live
Type=none
Options=bind
UNIT
    put_file /etc/systemd/system/mariadb.service.d/gpucluster-home.conf 0644 root:root <<'UNIT'
[Unit]
RequiresMountsFor=/var/lib/mysql
UNIT
    if ! mountpoint -q "$live"; then
        reload_systemd
        systemctl stop mariadb
        systemctl start var-lib-mysql.mount
    fi
    if [ ! -e "$DATABASE/complete" ]; then
        find "$DATABASE" -mindepth 1 -delete
        mariadb-install-db --user=mysql --datadir="$live" --skip-test-db --auth-root-authentication-method=socket >/dev/null
        touch "$DATABASE/complete"
    fi
}

# Another machine image may give the user mysql another number.
database_owner() {
    if [ -n "$(find "$DATABASE" ! -user mysql ! -name complete -print -quit)" ]; then chown -R mysql:mysql "$DATABASE"; fi
}

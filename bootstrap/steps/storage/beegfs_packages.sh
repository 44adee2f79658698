# BeeGFS's packages, from its own repository: those of the services that this machine may run.
step_beegfs_packages() {
    local wanted=() missing=() package
    mapfile -t wanted < <(beegfs_wanted)
    for package in "${wanted[@]}"; do
        if ! beegfs_has "$package"; then missing+=("$package"); fi
    done
    if [ "${#missing[@]}" -gt 0 ]; then
        beegfs_repository
        install_packages "${missing[@]}"
        # The packages enable the services and install their own configuration.
        beegfs_stop beegfs-client beegfs-helperd beegfs-storage beegfs-meta beegfs-mgmtd
    fi
    for package in "${wanted[@]}"; do beegfs_check_version "$package"; done
}

# The head node manages a cluster's file system. A job's nodes manage their own.
beegfs_wanted() {
    this_partition
    printf '%s\n' "${BEEGFS_CLIENT_PACKAGES[@]}"
    case $BEEGFS_ROLE in management | job) printf '%s\n' "${BEEGFS_MANAGEMENT_PACKAGES[@]}" ;; esac
    case $BEEGFS_ROLE in server | job) printf '%s\n' "${BEEGFS_SERVER_PACKAGES[@]}" ;; esac
}

# beegfs_has PACKAGE: checks the package's files, because an image may have installed them in another way.
beegfs_has() {
    case $1 in
    beegfs-client) [ -e "$BEEGFS_CLIENT_CONTROL" ] ;;
    beegfs-tools) [ -e /opt/beegfs/sbin/beegfs ] ;;
    beegfs-utils) command -v beegfs-ctl >/dev/null ;;
    libbeegfs-license) [ -e /opt/beegfs/lib/libbeegfs_license.so ] ;;
    *) [ -e "/opt/beegfs/sbin/$1" ] ;;
    esac
}

beegfs_repository() {
    local base=https://www.beegfs.io/release/beegfs_$BEEGFS_REPOSITORY VERSION_CODENAME=''
    # shellcheck source=/dev/null
    source /etc/os-release
    download "$base/gpg/GPG-KEY-beegfs" /etc/apt/trusted.gpg.d/beegfs.asc
    download "$base/dists/beegfs-$VERSION_CODENAME.list" /etc/apt/sources.list.d/beegfs.list
}

# beegfs_check_version PACKAGE: 7.4 and 8 are incompatible. An image may have been baked with either.
beegfs_check_version() {
    local found
    case $1 in beegfs-tools | libbeegfs-license) return ;; esac
    found=$(dpkg-query --show --showformat='${Version}' "$1" 2>/dev/null) || return 0
    found=${found#*:}
    case $found in
    "$BEEGFS_VERSION".*) say "$1 $found" ;;
    *) fail "this image has $1 $found, but the cluster file requires BeeGFS $BEEGFS_VERSION: change its version, or the image" ;;
    esac
}

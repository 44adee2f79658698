# The user's own scripts of cluster.yaml. Each runs once on an instance, as a step with its own time limit.
readonly SCRIPTS=/var/lib/gpucluster/scripts

# user_scripts before|after: runs those of this machine. They are for instances that boot from now on, so a head node that has passed
# this place once runs none again, whatever a new bundle has.
user_scripts() {
    local list=$BUNDLE/scripts/head node
    if [ -e "$BUNDLE/scripts" ]; then chmod -R go= "$BUNDLE/scripts"; fi # users of the node need not read the arguments
    if [ "$ROLE" = compute ]; then
        node=$(hostname)
        list=$BUNDLE/scripts/partitions/${node%-*}
        if [ ! -e "$list" ]; then return; fi
    fi
    SCRIPTS_WHEN=$1
    SCRIPTS_DONE=$SCRIPTS/$(imds meta-data/instance-id) # an image made of an instance has the folder of that one
    mkdir -p "$SCRIPTS_DONE"
    if [ -e "$SCRIPTS_DONE/$1" ]; then return; fi
    if [ -e "$list" ]; then
        # shellcheck source=/dev/null
        source "$list"
    fi
    touch "$SCRIPTS_DONE/$1"
}

# user_script WHEN NAME SECONDS SHA256 SOURCE ARG...: a line of the list.
# shellcheck disable=SC2034 # the step reads them
user_script() {
    if [ "$1" != "$SCRIPTS_WHEN" ] || [ -e "$SCRIPTS_DONE/ran-$2" ]; then return; fi
    SCRIPT_NAME=$2 SCRIPT_LIMIT_S=$3 SCRIPT_SHA256=$4 SCRIPT_SOURCE=$5
    SCRIPT_ARGS=("${@:6}")
    # The step itself ends the script; it needs some time more for the download.
    run_step user_script $((SCRIPT_LIMIT_S + 600)) "scripts/$2"
    touch "$SCRIPTS_DONE/ran-$2"
}

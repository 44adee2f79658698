# Lustre over EFA, where a file system has it and this machine can: AWS's own set-up, which loads Lustre's modules anew.
# Metadata stays on TCP. A client that is set up wrongly reads over TCP without a word, so this looks afterwards.
step_lustre_efa() {
    if ! storage_has '"efa": true'; then return; fi
    if [ "$ROLE" != compute ]; then return; fi
    this_machine
    this_partition
    if [ "$LUSTRE_OVER_EFA" = no ] || [ "$EFA" = no ]; then
        say "Lustre is reached over TCP: Lustre's clients use EFA on Nitro 4 and newer, where the partition has it"
        return
    fi
    if ! lustre_over_efa; then set_up_lustre_efa; fi
    lustre_over_efa || fail "LNet has no EFA interface after AWS's set-up (lnetctl net show): Lustre would go over TCP"
    say "Lustre over EFA: $(lnetctl net show | grep -c '@efa') interfaces"
}

lustre_over_efa() {
    [[ $(lnetctl net show 2>/dev/null || true) == *@efa* ]]
}

# The image may bring AWS's script. It sets how Lustre spreads over CPUs, which counts only while no module of it is loaded.
set_up_lustre_efa() {
    if [ ! -e "$LUSTRE_EFA/setup.sh" ]; then download_lustre_efa; fi
    lnetctl lnet unconfigure 2>/dev/null || true
    lustre_rmmod || fail "Lustre's modules are in use and cannot be loaded anew for EFA: reboot this machine"
    (cd "$LUSTRE_EFA" && bash ./setup.sh)
    modprobe lustre
}

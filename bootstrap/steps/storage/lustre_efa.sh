# Lustre over EFA, if a file system and this machine support it: AWS's own set-up, which reloads Lustre's modules. Metadata stays
# on TCP. A wrongly configured client silently reads over TCP, so this step checks the result.
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

# The image may have AWS's script. It sets how Lustre uses the CPUs, which has an effect only while none of its modules is loaded.
set_up_lustre_efa() {
    if [ ! -e "$LUSTRE_EFA/setup.sh" ]; then download_lustre_efa; fi
    lnetctl lnet unconfigure 2>/dev/null || true
    lustre_rmmod || fail "Lustre's modules are in use and cannot be reloaded for EFA: reboot this machine"
    (cd "$LUSTRE_EFA" && bash ./setup.sh)
    modprobe lustre
}

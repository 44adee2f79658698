#!/bin/sh
# Stands in for AWS's set-up of Lustre clients for EFA: loads the modules and gives LNet the machine's EFA interfaces.
set -eu
if [ -e "${LOCALCLOUD_MODULES:-/run/localcloud-modules}/lnet" ]; then
    echo "localcloud: LNet is loaded already: what is set for its modules would not count" >&2
    exit 1
fi
modprobe -a lnet ksocklnd kefalnd
lnetctl lnet configure
lnetctl net add --net tcp --if host0
fi_info -p efa -t FI_EP_RDM | sed -n 's/^ *domain: \(.*\)-rdm$/\1/p' | sort -u | while read -r device; do
    lnetctl net add --net efa --if "$device" --peer-credits 32
done

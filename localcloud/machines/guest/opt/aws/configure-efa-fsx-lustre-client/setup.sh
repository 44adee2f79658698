#!/bin/sh
# Stands in for AWS's set-up of Lustre clients for EFA: loads the modules and adds the instance's EFA interfaces to LNet.
set -eu
if [ -e "${LOCALCLOUD_MODULES:-/run/localcloud-modules}/lnet" ]; then
    echo "localcloud: LNet is already loaded, so settings of its modules would have no effect" >&2
    exit 1
fi
modprobe -a lnet ksocklnd kefalnd
lnetctl lnet configure
lnetctl net add --net tcp --if host0
fi_info -p efa -t FI_EP_RDM | sed -n 's/^ *domain: \(.*\)-rdm$/\1/p' | sort -u | while read -r device; do
    lnetctl net add --net efa --if "$device" --peer-credits 32
done

# EC2 announces the termination of a spot instance two minutes before: gpucluster_node/notices/spot.py.
step_spot_notice() {
    if [ "$(imds meta-data/instance-life-cycle)" != spot ]; then return; fi
    node_program
    node_service spot-notice notices.spot "Read EC2's notices for this spot instance"
}

"""Whole shards for each rank, for readers that take a list of files: tf.data and MXNet's iterators.

Ranks that share shards, those of a node with `shard: by-node` or all with `shard: none`, divide them among themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpucluster_train.assignment import Shard, parts, samples_of
from gpucluster_train.channels import Channel, ChannelError


def places(channel: Channel, epoch: int) -> list[str]:
    """Paths, or S3 URIs, of this rank's shards in this epoch. No two ranks have one, and together they have all."""
    if channel.shard == "by-node":
        own = _divided(channel, channel.part(epoch), channel.ranks_per_node, epoch)[channel.world.local_rank]
    else:
        own = _divided(channel, channel.every, channel.world.size, epoch)[channel.world.rank]
    return [channel.place_of(shard) for shard in own]


def samples_each(channel: Channel, epochs: int) -> int:
    """Samples that every rank has at least, in each epoch. Ranks that stop there make equally many steps.

    Raises ChannelError if that is unknown or nothing.
    """
    counts = [samples_of(part) for epoch in range(epochs) for part in _of_all_ranks(channel, epoch)]
    least = min(-1 if count is None else count for count in counts)
    if least < 0:
        raise ChannelError(
            f"channel {channel.name}: {channel.root} has no manifest.json, so nobody knows how many samples a rank "
            "has, and ranks with different numbers of steps would wait for each other forever: pack the data with "
            "`gpucluster data shard`"
        )
    if least == 0:
        raise ChannelError(
            f"channel {channel.name}: its {len(channel.every)} shards are too few for {channel.world.size} ranks: pack "
            "the data into several times as many shards as ranks, or use fewer ranks"
        )
    return least


def _of_all_ranks(channel: Channel, epoch: int) -> list[list[Shard]]:
    if channel.shard != "by-node":
        return _divided(channel, channel.every, channel.world.size, epoch)
    ranks = channel.ranks_per_node
    return [own for part in channel.node_parts(epoch) for own in _divided(channel, part, ranks, epoch)]


def _divided(channel: Channel, shards: Sequence[Shard], count: int, epoch: int) -> list[list[Shard]]:
    return parts(shards, count, seed=channel.seed, epoch=epoch)

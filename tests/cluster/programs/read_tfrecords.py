"""Reads a folder's TFRecords with tf.data and prints, for each sample, the file that it was and its label."""

import glob
import json
import sys

import tensorflow as tf

FEATURES = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/filename": tf.io.FixedLenFeature([], tf.string),
    "image/class/label": tf.io.FixedLenFeature([], tf.int64),
}
found = []
for record in tf.data.TFRecordDataset(sorted(glob.glob(f"{sys.argv[1]}/*.tfrecord"))):
    sample = tf.io.parse_single_example(record, FEATURES)
    assert tf.io.decode_jpeg(sample["image/encoded"]).shape == (16, 16, 3)
    found.append((sample["image/filename"].numpy().decode(), int(sample["image/class/label"])))
print(json.dumps(sorted(found)))

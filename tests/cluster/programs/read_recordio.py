"""Reads a folder's RecordIO files with MXNet's three readers and prints each sample's file and label."""

import glob
import json
import sys

import mxnet as mx

folder = sys.argv[1]
with open(f"{folder}/samples.jsonl") as lines:
    names = [json.loads(line)[0] for line in lines]
found = []
for path in sorted(glob.glob(f"{folder}/*.rec")):
    index = path[:-4] + ".idx"
    reader = mx.recordio.MXIndexedRecordIO(index, path, "r")
    for key in reader.keys:
        header, image = mx.recordio.unpack(reader.read_idx(key))
        assert header.id == key
        assert mx.image.imdecode(image).shape == (16, 16, 3)
        found.append((names[key], int(header.label)))
    assert len(mx.gluon.data.vision.ImageRecordDataset(path)) == len(reader.keys)
    batches = mx.io.ImageRecordIter(
        path_imgrec=path, path_imgidx=index, data_shape=(3, 16, 16), batch_size=1, shuffle=True, preprocess_threads=1
    )
    labels = sorted(int(batch.label[0].asscalar()) for batch in batches)
    assert labels == sorted(label for _, label in found[-len(reader.keys) :])
print(json.dumps(sorted(found)))

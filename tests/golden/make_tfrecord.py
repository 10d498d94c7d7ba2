"""Writes tensorflow.tfrecord with TensorFlow itself (tensorflow-cpu 2.21 from pip): make_tfrecord.py FILE

Three Examples: bytes, floats and integers (negative ones too), one with several bytes values, one without values."""

import sys

import tensorflow as tf

OUT = sys.argv[1]


def feature(kind: str, values: list) -> tf.train.Feature:
    lists = {"bytes": tf.train.BytesList, "float": tf.train.FloatList, "int64": tf.train.Int64List}
    return tf.train.Feature(**{f"{kind}_list": lists[kind](value=values)})


EXAMPLES = [
    {"image": feature("bytes", [bytes(range(256))]), "scale": feature("float", [0.5, -1.25, 3.0]),
     "label": feature("int64", [7])},
    {"words": feature("bytes", [b"one", b"", b"three"]), "label": feature("int64", [-1, 0, 2**62, -2**63])},
    {"image": feature("bytes", []), "scale": feature("float", []), "label": feature("int64", [])},
]

with tf.io.TFRecordWriter(OUT) as writer:
    for example in EXAMPLES:
        writer.write(tf.train.Example(features=tf.train.Features(feature=example)).SerializeToString(deterministic=True))

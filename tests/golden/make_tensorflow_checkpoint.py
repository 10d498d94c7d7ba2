"""Writes tensorflow.ckpt.index with TensorFlow itself (tensorflow-cpu 2.21 from pip): make_tensorflow_checkpoint.py FOLDER

41 tensors of ones, so that the table has three restarts: layer/half is 5 float16, variable_000 to variable_039 are 10 to 49
float32. Only the .index is kept."""

import sys
from pathlib import Path

import numpy
import tensorflow.compat.v1 as tf

folder = Path(sys.argv[1])
tf.disable_eager_execution()
tensors = [tf.get_variable(f"variable_{i:03}", initializer=numpy.ones(10 + i, numpy.float32)) for i in range(40)]
tensors.append(tf.get_variable("layer/half", initializer=numpy.ones(5, numpy.float16)))
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    tf.train.Saver(tensors).save(session, str(folder / "tensorflow.ckpt"), write_meta_graph=False, write_state=False)
(folder / "tensorflow.ckpt.data-00000-of-00001").unlink()

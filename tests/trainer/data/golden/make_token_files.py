#!/usr/bin/env python3
"""Makes the golden files of this folder with numpy, as the programs that people use write them. Token k of a file is
(a*k + b) mod V, so that a test knows every one.

  llmc-u16.bin, llmc-u32.bin   llm.c (karpathy/llm.c:dev/data/data_common.py, write_datafile): 256 int32, then the tokens
  numpy-u8.npy ... u64.npy     numpy.save of one dimension
  olmo-u16.npy, olmo-u32.npy   Olmo-core: a memory map without a header (numpy.ndarray.tofile)
"""
import os
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def tokens(count, a, b, vocab, dtype):
    return ((a * np.arange(count, dtype=np.int64) + b) % vocab).astype(dtype)


def llmc(name, magic, version, data):
    header = np.zeros(256, dtype=np.int32)
    header[:3] = magic, version, len(data)
    with open(os.path.join(HERE, name), "wb") as f:
        f.write(header.tobytes())
        f.write(data.tobytes())


llmc("llmc-u16.bin", 20240520, 1, tokens(101, 7919, 13, 50257, "<u2"))
llmc("llmc-u32.bin", 20240801, 7, tokens(100, 7919, 99990, 100277, "<u4"))
for width, vocab in ((1, 251), (2, 50257), (4, 100277), (8, 100277)):
    np.save(os.path.join(HERE, f"numpy-u{8 * width}.npy"), tokens(83, 7919, 5, vocab, f"<u{width}"))
tokens(99, 7919, 3, 50257, "<u2").tofile(os.path.join(HERE, "olmo-u16.npy"))
tokens(98, 7919, 99000, 100278, "<u4").tofile(os.path.join(HERE, "olmo-u32.npy"))

# SPDX-License-Identifier: Apache-2.0
"""A safetensors file from bytes, with the standard library alone."""

import json
import struct


def write_shard(path, tensors):
    """tensors: {name: (type, shape, bytes)}"""
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            file.write(data)

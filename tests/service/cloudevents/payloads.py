"""Events as KServe's logger sends them, with bodies of v1 and v2."""

import json
import struct
from datetime import UTC, datetime

import numpy as np

PATH = "/v1/monitors/default/cloudevents"
ID = "0009174a-24a8-4603-b098-09c8799950e9"
V1_REQUEST = b'{"instances": [[6.8,2.8,4.8,1.4],[6.0,3.4,4.5,1.6]]}'
V1_RESPONSE = b'{"predictions": [1, 1]}'
V2_REQUEST = json.dumps(
    {
        "id": "42",
        "parameters": {},
        "inputs": [
            {"name": "age", "shape": [2, 1], "datatype": "FP64", "data": [41, 44]},
            {"name": "income", "shape": [2, 1], "datatype": "FP64", "data": [3100, 3000]},
        ],
    }
).encode()
V2_RESPONSE = json.dumps(
    {
        "model_name": "loans",
        "model_version": "7",
        "id": "42",
        "outputs": [{"name": "approved", "shape": [2], "datatype": "BYTES", "data": ["no", "yes"]}],
    }
).encode()


def now():
    """With nanoseconds, as Go writes them."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "900Z"


def headers(kind, id_=ID, time=None, **more):
    """Those of binary mode."""
    return {
        "Content-Type": "application/json",
        "Ce-Specversion": "1.0",
        "Ce-Id": id_,
        "Ce-Type": f"org.kubeflow.serving.inference.{kind}",
        "Ce-Source": "http://localhost:9081/",
        "Ce-Time": time or now(),
        "Ce-Recordedtime": now(),
        "Ce-Inferenceservicename": "sklearn-iris",
        "Ce-Namespace": "default",
        "Ce-Component": "predictor",
        "Ce-Endpoint": "",
        "Ce-Metadata": '{"X-Request-Id":["r-17"]}',
    } | more


def structured(kind, data, id_=ID, **more):
    return {
        "specversion": "1.0",
        "id": id_,
        "type": f"org.kubeflow.serving.inference.{kind}",
        "source": "http://localhost:9081/",
        "time": now(),
        "inferenceservicename": "sklearn-iris",
        "namespace": "default",
        "component": "predictor",
        "datacontenttype": "application/json",
        **({} if data is None else {"data": data}),
    } | more


def raw_of(datatype, values):
    """The raw bytes of a tensor in the binary extension."""
    if datatype == "BYTES":
        return b"".join(struct.pack("<I", len(v.encode())) + v.encode() for v in values)
    if datatype == "BF16":
        return (np.array(values, "<f4").view("<u4") >> 16).astype("<u2").tobytes()
    kinds = {"BOOL": "?", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8"}
    kind = kinds.get(datatype) or (
        ("<u" if datatype.startswith("U") else "<i") + str(int(datatype.strip("UINT")) // 8)
    )
    return np.array(values, kind).tobytes()


def with_raw(place, tensors, **more):
    """A body of the binary extension: JSON, then (name, shape, datatype, values) raw."""
    described, raw = [], b""
    for name, shape, datatype, values in tensors:
        piece = raw_of(datatype, values)
        size = {"binary_data_size": len(piece)}
        described.append({"name": name, "shape": shape, "datatype": datatype, "parameters": size})
        raw += piece
    return json.dumps({**more, place: described}).encode() + raw

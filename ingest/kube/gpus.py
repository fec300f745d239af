"""GPUs among Kubernetes' extended resources, by the names of any vendor's device plugin. Kernel."""

import re
from collections.abc import Mapping
from fractions import Fraction

WHOLE = (
    *("nvidia.com/gpu", "nvidia.com/gpu.shared", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe"),
    *("habana.ai/gaudi", "volcano.sh/vgpu-number"),
)
"""A piece is a GPU, or a place on one."""
PERCENT = ("koordinator.sh/gpu", "koordinator.sh/gpu-core", "aliyun.com/gpu-core.percentage", "tencent.com/vcuda-core")
"""A hundred pieces are a GPU."""
_SLICE = re.compile(r"nvidia\.com/mig-([1-7])g\.([0-9]+)gb[\w.]*")
SLICES = 7
"""Compute slices of a GPU that can be cut, as in nvidia.com/mig-3g.20gb."""
A30_GB, A30_SLICES = 6, 4
"""Memory of a slice of an A30, which no other GPU has, and how many it has."""


def gpus_in(amounts: Mapping[str, Fraction]) -> Fraction:
    """GPUs among resources, in fractions where they are shared; 0 without any.

    Names of one kind are added up, and the greatest kind counts: Koordinator writes a share next to the whole GPU.

    Source: device plugins of NVIDIA (MIG strategy mixed), AMD, Intel and Habana; Koordinator, Aliyun, Tencent, Volcano.
    """
    whole = sum((amounts.get(name, Fraction(0)) for name in WHOLE), Fraction(0))
    shares = max(amounts.get(name, Fraction(0)) for name in PERCENT) / 100
    cut = sum((n * _share(*m.groups()) for name, n in amounts.items() if (m := _SLICE.fullmatch(name))), Fraction(0))
    return max(whole + cut, shares)


def _share(slices: str, gb: str) -> Fraction:
    """Of a GPU, that an instance of so many slices and so much memory is."""
    return Fraction(int(slices), A30_SLICES if int(gb) == A30_GB * int(slices) else SLICES)

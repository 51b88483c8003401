"""Devices by name."""

from __future__ import annotations

import torch

from graphkin.errors import SettingError, check_text
from graphkin.support.parallel import peers


def device_named(name: str) -> torch.device:
    """ "auto" is the GPU if there is one; of several processes on a machine each has its own."""
    check_text("device", name)
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise SettingError(f"device must be auto, cpu, cuda or cuda:N, found {name!r}.") from error
    if device.type not in ("cpu", "cuda"):
        raise SettingError(f"device must be auto, cpu, cuda or cuda:N, found {name!r}.")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SettingError(f"device {name!r} was asked for, but PyTorch sees no GPU here; use cpu or auto.")
    among = peers()
    if device.type == "cuda" and among.size > 1:
        if ":" in name:
            raise SettingError(f"several processes take a GPU each: device must be auto, cpu or cuda, found {name!r}.")
        if among.local_size > torch.cuda.device_count():
            raise SettingError(
                f"{among.local_size} processes were started on this machine, and PyTorch sees {torch.cuda.device_count()} GPUs "
                "here: start as many as there are GPUs, or use cpu."
            )
        return torch.device("cuda", among.local_rank)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise SettingError(f"device {name!r} was asked for, but PyTorch sees {torch.cuda.device_count()} GPUs here.")
    return device

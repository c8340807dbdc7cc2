"""A drive of a few small frames: sky, buildings, a road, a car, a pole now and then."""

from __future__ import annotations

import shutil
import struct
import zlib

import numpy as np
from PIL import Image

from reprior_lab.synthia.frames import Frame

HEIGHT, WIDTH = 32, 48
ROAD, BUILDING, POLE, SKY, CAR = 1, 3, 6, 11, 14  # ids of SYNTHIA-SF
COLOURS = {ROAD: 90, BUILDING: 60, POLE: 130, SKY: 220, CAR: 240}


def scene(seed, *, pole):
    """Colour (H, W, 3), ids (H, W) and depth in metres (H, W) of a frame."""
    rng = np.random.default_rng(seed)
    ids = np.full((HEIGHT, WIDTH), SKY)
    depth = np.full((HEIGHT, WIDTH), 1000.0)
    ids[8:18], depth[8:18] = BUILDING, 60.0
    rows = np.arange(18, HEIGHT)
    ids[18:] = ROAD
    depth[18:] = (1.5 * 0.43 * WIDTH / (rows - HEIGHT / 2))[:, None]
    left = 10 + int(rng.integers(0, 20))
    ids[16:24, left : left + 8], depth[16:24, left : left + 8] = CAR, 8.0
    if pole:
        ids[4:22, 40:42], depth[4:22, 40:42] = POLE, 7.0
    grey = np.vectorize(COLOURS.get)(ids)[..., None] + rng.integers(-10, 11, (HEIGHT, WIDTH, 3))
    return np.clip(grey, 0, 255).astype(np.uint8), ids, depth


def frame(seed=0, *, name="000000", pole=True):
    rgb, ids, depth = scene(seed, pole=pole)
    labels = np.searchsorted([ROAD, BUILDING, POLE, SKY, CAR], ids)
    return Frame(name, rgb, depth.astype(np.float32), labels.astype(np.uint8))


def write_sf(root, part, numbers, *, poles=()):
    """Write frames as SYNTHIA-SF has them: ids in the red channel, depth over 24 bits."""
    for kind in ("RGB", "GT", "Depth"):
        (root / part / kind).mkdir(parents=True, exist_ok=True)
    for number in numbers:
        rgb, ids, depth = scene(number, pole=number in poles)
        whole = np.rint(depth / 1000.0 * (2**24 - 1)).astype(np.int64)
        coded = np.stack([whole & 255, (whole >> 8) & 255, whole >> 16], axis=-1)
        truth = np.stack([ids, 0 * ids, 0 * ids], axis=-1)
        for kind, values in (("RGB", rgb), ("GT", truth), ("Depth", coded)):
            Image.fromarray(values.astype(np.uint8)).save(root / part / kind / f"{number:06d}.png")


def write_drives(root):
    """Twenty training frames, two drives of ten through the same place, and six test frames."""
    write_sf(root, "train", [*range(10), *range(50, 60)], poles=[2, 3, 7, 8, 52, 57])
    write_sf(root, "test", range(20, 26), poles=[22])
    return root


def write_cameras(root, condition, numbers, cameras):
    """The frames of a drive by several cameras, given as sides and views: all see the same."""
    first, *others = [f"{side}/{view}" for side in cameras[0] for view in cameras[1]]
    write_sequence(root, condition, numbers, first)
    for kind in ("RGB", "GT/LABELS", "Depth"):
        home = root / f"SYNTHIA-SEQS-05-{condition}" / kind
        for other in others:
            shutil.copytree(home / first, home / other)


def write_sequence(root, condition, numbers, place="Stereo_Left/Omni_F"):
    """As SYNTHIA-Sequences has it: ids and centimetres in the first of three 16-bit channels."""
    drive = root / f"SYNTHIA-SEQS-05-{condition}"
    for kind in ("RGB", "GT/LABELS", "Depth"):
        (drive / kind / place).mkdir(parents=True, exist_ok=True)
    for number in numbers:
        rgb, ids, depth = scene(number, pole=False)
        ids = np.where(ids == SKY, 1, 3)  # sky and road of this set
        name = f"{number:06d}.png"
        Image.fromarray(rgb).save(drive / "RGB" / place / name)
        for kind, values in (("GT/LABELS", ids), ("Depth", np.minimum(100 * depth, 65535))):
            three = np.repeat(values.astype(np.uint16)[..., None], 3, axis=2)
            png16(drive / kind / place / name, three, [2] * HEIGHT)


def png16(path, values, filters):
    """Write uint16 (H, W, C) as a PNG of sixteen bits per channel, a filter for each row."""
    height, width, channels = values.shape
    n_bytes = 2 * channels
    rows = values.astype(">u2").view(np.uint8).reshape(height, width * n_bytes).astype(int)
    out = bytearray()
    for i, kind in enumerate(filters):
        out.append(kind)
        for j in range(rows.shape[1]):
            left = rows[i, j - n_bytes] if j >= n_bytes else 0
            up = rows[i - 1, j] if i else 0
            corner = rows[i - 1, j - n_bytes] if i and j >= n_bytes else 0
            out.append((rows[i, j] - predicted(kind, left, up, corner)) % 256)
    colour = {3: 2, 4: 6, 2: 4}[channels]
    header = struct.pack(">IIBBBBB", width, height, 16, colour, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n"
    for name, body in ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(out))), (b"IEND", b"")):
        data += struct.pack(">I", len(body)) + name + body
        data += struct.pack(">I", zlib.crc32(name + body))
    path.write_bytes(data)
    return path


def predicted(kind, left, up, corner):
    """The five predictors as the PNG specification prints them."""
    if kind == 4:
        estimate = left + up - corner
        return min((left, up, corner), key=lambda value: abs(estimate - value))
    return [0, left, up, (left + up) // 2][kind]

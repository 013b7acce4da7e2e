"""`accelerate launch` of a program, which starts it as a process of its own."""

import os
import sys

import torch
from accelerate.commands import launch

folder = os.path.dirname(os.path.abspath(__file__))
place = ["--cpu"] if not torch.cuda.is_available() else []
sys.stdout.flush()
for words in (["--mixed_precision", "no"], ["--mixed_precision", "bf16"]):
    script = [os.path.join(folder, "accelerate_loop.py"), "--precision", words[1]]
    parsed = launch.launch_command_parser().parse_args(
        [
            *words,
            *place,
            "--num_processes",
            "1",
            "--num_machines",
            "1",
            "--dynamo_backend",
            "no",
            *script,
        ]
    )
    launch.launch_command(parsed)

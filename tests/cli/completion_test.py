#!/usr/bin/env python3
"""The completion scripts, in their shells."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from terminal import Terminal

PROGRAM = os.environ["MILLRACE"]


def script(shell: str) -> str:
    return subprocess.run([PROGRAM, "completion", shell], capture_output=True, text=True,
                          check=True).stdout


def run(*command: str, **options) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)
    if done.returncode != 0 or done.stderr:
        raise AssertionError(f"{command}: exit {done.returncode}: {done.stderr}{done.stdout}")
    return done.stdout


class CompletionTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.directory = Path(holder.name)
        (self.directory / "a_folder").mkdir()
        (self.directory / "a_file").touch()

    def bash(self, *words: str) -> set[str]:
        quoted = " ".join(f"'{word}'" for word in words)
        code = (f"{script('bash')}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}\n"
                "_millrace; printf '%s\\n' \"${COMPREPLY[@]}\"")
        return set(run("bash", "-c", code, cwd=self.directory).split())

    def test_bash_completes_verbs_options_choices_and_directories(self):
        self.assertEqual(self.bash("millrace", "do"), {"doctor"})
        self.assertEqual(self.bash("millrace", "doctor", "--no"), {"--no-speed"})
        self.assertEqual(self.bash("millrace", "completion", "z"), {"zsh"})
        self.assertEqual(self.bash("millrace", "doctor", "a_"), {"a_folder"})
        self.assertEqual(self.bash("millrace", "help", "comp"), {"compact", "compare", "completion"})

    def test_bash_completes_actions_and_what_they_take(self):
        self.assertEqual(self.bash("millrace", "store", "un"), {"unmount"})
        self.assertEqual(self.bash("millrace", "store", "list", "--"), {"--help", "--long", "--json"})
        self.assertEqual(self.bash("millrace", "store", "pack", "--codec", "z"), {"zstd"})
        self.assertEqual(self.bash("millrace", "store", "mount", "a_"), {"a_folder"})
        self.assertEqual(self.bash("millrace", "bench", "datas"), {"datasize"})
        self.assertEqual(self.bash("millrace", "bench", "datasize", "--me"), {"--memory"})
        self.assertEqual(self.bash("millrace", "bench", "a_file", "--gen"), {"--generate"})

    def test_bash_offers_nothing_for_a_size(self):
        self.assertEqual(self.bash("millrace", "doctor", "--size", ""), set())

    def fish(self, line: str) -> set[str]:
        (self.directory / "millrace.fish").write_text(script("fish"))
        code = f"source millrace.fish; complete -C '{line}'"
        environment = os.environ | {"HOME": str(self.directory), "XDG_CONFIG_HOME": str(self.directory)}
        lines = run("fish", "--no-config", "-c", code, cwd=self.directory, env=environment)
        return {line.split("\t")[0] for line in lines.splitlines()}

    def test_fish_completes_verbs_options_choices_and_directories(self):
        self.assertEqual(self.fish("millrace do"), {"doctor"})
        self.assertEqual(self.fish("millrace doctor --no"), {"--no-speed"})
        self.assertEqual(self.fish("millrace completion z"), {"zsh"})
        self.assertEqual(self.fish("millrace doctor a_"), {"a_folder/"})

    def test_fish_completes_actions_and_what_they_take(self):
        self.assertEqual(self.fish("millrace store un"), {"unmount"})
        self.assertEqual(self.fish("millrace store list --"), {"--help", "--long", "--json"})
        self.assertEqual(self.fish("millrace store pack --codec z"), {"zstd"})
        self.assertEqual(self.fish("millrace store mount a_"), {"a_folder/"})
        self.assertEqual(self.fish("millrace bench datas"), {"datasize"})
        self.assertEqual(self.fish("millrace bench datasize --me"), {"--memory"})
        self.assertEqual(self.fish("millrace bench a_file --gen"), {"--generate"})

    def zsh(self, line: str) -> str:
        """The arguments with which an interactive zsh calls millrace after the line, tab and return."""
        (self.directory / "_millrace").write_text(script("zsh"))
        environment = os.environ | {"TERM": "dumb", "HOME": str(self.directory), "PS1": "%% "}
        shell = Terminal(["zsh", "-f", "-i"], environment)
        self.addCleanup(shell.close)
        shell.type(f"cd {self.directory}; fpath=({self.directory} $fpath)\n")
        shell.type("autoload -U compinit; compinit -u -D; unsetopt prompt_cr prompt_sp\n")
        # The doubled quotes keep the echo of the typed line from looking like the answer.
        shell.type("function millrace { print -r -- '<''called' \"$@\"'>' }\n")
        # Keys that are typed during the completion would end it, so wait for its end. The widget returns when the
        # line is final.
        shell.type("function complete_and_print { zle expand-or-complete; print -n 'comp''leted' > /dev/tty }\n")
        shell.type("zle -N complete_and_print; bindkey '\\t' complete_and_print; print rea''dy\n")
        shell.read_until("ready")
        shell.type(line + "\t")
        shell.read_until("completed")
        shell.type("\n")
        shell.read_until("<called ")
        answer = shell.read_until(">")
        shell.type("exit\n")
        return answer.removesuffix(">")

    def test_zsh_completes_verbs_options_choices_and_directories(self):
        self.assertEqual(self.zsh("millrace do"), "doctor")
        self.assertEqual(self.zsh("millrace doctor --no"), "doctor --no-speed")
        self.assertEqual(self.zsh("millrace completion z"), "completion zsh")
        self.assertEqual(self.zsh("millrace doctor a_"), "doctor a_folder")

    def test_zsh_completes_actions_and_what_they_take(self):
        self.assertEqual(self.zsh("millrace store un"), "store unmount")
        self.assertEqual(self.zsh("millrace store list --lo"), "store list --long")
        self.assertEqual(self.zsh("millrace store pack --codec z"), "store pack --codec zstd")
        self.assertEqual(self.zsh("millrace store mount a_"), "store mount a_folder")
        self.assertEqual(self.zsh("millrace bench datas"), "bench datasize")
        self.assertEqual(self.zsh("millrace bench datasize --me"), "bench datasize --memory")
        self.assertEqual(self.zsh("millrace bench a_file --gen"), "bench a_file --generate")
        self.assertEqual(self.zsh("millrace store warm --ord"), "store warm --order")


if __name__ == "__main__":
    unittest.main()

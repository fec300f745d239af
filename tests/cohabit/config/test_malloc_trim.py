"""Memory: holes between what is kept go back to the machine."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cohabit.config.malloc_trim import ARROW_HEAP, DELTA_HEAP, WITHOUT_CACHES, GivingBack

MEASURED = Path(__file__).parents[3] / "data_samples" / "measured"

HOLES = """
import ctypes
from pathlib import Path
from cohabit.config import malloc_trim as memory

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

def held() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20

taken = []
for _ in range(2000):
    taken.append(libc.malloc(50_000))
    ctypes.memset(taken[-1], 1, 50_000)
full = held()
for number, one in enumerate(taken):
    if number % 20:
        libc.free(one)
before = held()
{how}
print(full - before, before - held())
"""


def megabytes_freed(how: str) -> tuple[int, int]:
    """By freeing alone, and after."""
    script = HOLES.replace("{how}", how)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    freed, given_back = map(int, done.stdout.split())
    return freed, given_back


def test_what_lies_between_what_is_kept_is_given_back() -> None:
    freed, given_back = megabytes_freed("assert memory.give_back()")

    assert freed < 10
    assert given_back > 50


def test_it_is_given_back_again_and_again_while_the_process_runs() -> None:
    wait = "from time import sleep\nassert memory.give_back_for_good(0.05)\nwhile before - held() < 50: sleep(0.05)"

    assert megabytes_freed(wait)[1] > 50


def test_it_is_given_back_at_the_end_of_a_piece_of_work() -> None:
    assert megabytes_freed("memory.GivingBack(3600.0)()")[1] > 50


@pytest.mark.parametrize(("every_s", "times"), [(3600.0, 1), (0.0, 3)])
def test_pieces_of_work_that_follow_soon_do_not_each_give_back(every_s: float, times: int) -> None:
    giving_back, before = GivingBack(every_s), gc.get_stats()[2]["collections"]

    for _ in range(3):
        giving_back()

    assert gc.get_stats()[2]["collections"] == before + times


def test_what_is_large_is_given_back_when_it_is_freed_whatever_was_freed_before() -> None:
    large = (
        "libc.free(libc.malloc(30 << 20))\nassert memory.give_back_for_good(3600.0)\nlibc.free(libc.malloc(30 << 20))\n"
        "taken = [libc.malloc(1 << 20) for _ in range(80)]\n"
        "for one in taken: ctypes.memset(one, 1, 1 << 20)\n"
        "before = held()\n"
        "for one in taken[::2]: libc.free(one)"
    )

    assert megabytes_freed(large)[1] > 30


def test_what_arrow_takes_while_it_writes_a_lake_lies_where_memory_is_given_back(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom cohabit.cli.main import main\ntry: main()\nexcept SystemExit as ended: assert not "
        "ended.code\n"
        "assert 'pyarrow.parquet' in sys.modules\nimport pyarrow as pa\n"
        "print(pa.default_memory_pool().backend_name, pa.mimalloc_memory_pool().max_memory())"
    )
    command = [sys.executable, "-c", script, "ingest", str(MEASURED)]
    free = {name: one for name, one in os.environ.items() if name != ARROW_HEAP}

    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env=free)

    assert (tmp_path / "cohabit-data" / "lake").is_dir()
    assert done.stdout.splitlines()[-1].split() == ["system", "0"]


def test_what_delta_takes_while_it_runs_for_good_goes_back_when_it_is_freed(tmp_path: Path) -> None:
    script = (
        "import cohabit.config.malloc_trim as memory\nmemory.WITHOUT_CACHES += ',confirm_conf:true'\n"
        "from cohabit.cli.main import main\nmain()"
    )
    command = [sys.executable, "-c", script, "ingest", str(MEASURED)]
    free = {name: one for name, one in os.environ.items() if name != DELTA_HEAP}

    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env=free)

    taken = {line.split()[-1] for line in done.stderr.splitlines() if "Set conf value" in line}
    assert set(WITHOUT_CACHES.split(",")) <= taken


def test_what_holds_itself_and_a_table_is_let_go_of() -> None:
    script = (
        "import gc, time\nimport pyarrow as pa\nfrom cohabit.config.malloc_trim import give_back_for_good\nclass "
        "Cycle: ...\n"
        "give_back_for_good(0.05)\none = Cycle()\none.itself, one.table = one, pa.array(range(100_000))\n"
        "gc.collect()  # into the generation that is hardly ever looked at\n"
        "assert pa.total_allocated_bytes()\ndel one\nwhile pa.total_allocated_bytes(): time.sleep(0.05)"
    )

    subprocess.run([sys.executable, "-c", script], check=True, timeout=20)

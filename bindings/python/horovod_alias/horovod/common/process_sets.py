"""Subsets of the ranks."""

from dabke.process_sets import (
    ProcessSet as ProcessSet,
    add_process_set as add_process_set,
    get_process_set_ids_and_ranks as get_process_set_ids_and_ranks,
    global_process_set as global_process_set,
    remove_process_set as remove_process_set,
)

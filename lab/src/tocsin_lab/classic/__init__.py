"""The papers' matching algorithms, each an engine of its own with its own data structures.

    front.py        what they share: normal forms become rows of coded tests; ids in, ids out; checks last
    jit.py          how kernels are compiled
    labels.py       values as int64 labels that keep their order while constants come and go
    columns.py      events and predicates in labels
    rows.py         the predicates of every row (conjunction), flat; one test against one event
    lists.py        growable lists of integers in one pool; what inverted files are made of

    predicate stage (which predicates does the event satisfy?)
        stage.py, ordered_lists.py, sorted_arrays.py, value_table.py, hash_stage.py
    association of predicates with subscriptions, for counting
        posting_lists.py, bit_matrix.py, byte_matrix.py

    counting.py             fair predicate: any stage with any association (Le Subscribe, TOPSS, thesis)
    equality_preferred.py   Le Subscribe          hanson.py              Hanson et al., on ibs_tree.py
    quarantining.py         Le Subscribe          propagation.py         Fabret et al. in Le Subscribe
    gough.py                Gough and Smith       schema_clustering.py   Fabret et al. 2001
    matching_tree.py        Aguilera et al.       neon.py                NEON's tables

They are here to be read and compared (`tocsin lab`); the engine for work is matching/columnar.
"""

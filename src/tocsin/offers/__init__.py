"""Offers: events whose publisher chooses among subscribers, and computes attributes for each of them.

    analysis.py        a document becomes an Offer (language/offer.py); texts are bound once
    programs.py        what formulas call: expressions and callables by name and version; program_files.py, cache.py
    scan.py            OfferScan: the candidates of a batch of offers in one tier of an index
      rows.py            the tier's rows in an order of their own, and what each accepts, as codes
      requests.py        what an offer asks of rows, as intervals of columns
      bitmaps.py         which rows have a value in an interval; scan_kernel.py intersects them for all offers at once
      computing.py       computed attributes of the candidates; values that ask nothing of the offer are kept
    book.py            offers that are held, for subscriptions to come

What matches is defined in language/semantics.py; the matcher (tocsin.matching) holds one OfferScan for each tier.
"""

from tocsin.offers.analysis import Analysis
from tocsin.offers.cache import ProgramCache
from tocsin.offers.program_files import ProgramsFile, open_programs, programs_from
from tocsin.offers.programs import Program, Programs, UnknownProgram

__all__ = [
    "Analysis",
    "Program",
    "ProgramCache",
    "Programs",
    "ProgramsFile",
    "UnknownProgram",
    "open_programs",
    "programs_from",
]

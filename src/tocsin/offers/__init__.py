"""Offers: events whose publisher chooses among subscribers, and computes attributes for each of them.

    analysis.py        a document becomes an Offer (language/offer.py); texts are bound once
    programs.py        what formulas call: expressions and callables by name and version; program_files.py, programs.py
    scan.py            OfferScan: the candidates of a batch of offers in one tier of an index
      requests.py            the tier's rows in an order of their own, and what each accepts, as codes
      requests.py        what an offer asks of rows, as intervals of columns
      scan_kernel.py         which rows have a value in an interval; scan_kernel.py intersects them for all offers at once
      survivors.py       what the scan leaves is decided, in groups of offers alike
      computing.py       computed attributes; values that ask nothing of the offer are kept; survivors.py: formulas alike
    scan.py            offers that are held, for subscriptions to come

What matches is defined in language/semantics.py; the matcher (tocsin.matching) holds one OfferScan for each tier.
"""

from tocsin.offers.analysis import Analysis
from tocsin.offers.program_files import ProgramsFile, open_programs, programs_from
from tocsin.offers.programs import Program, ProgramCache, Programs, UnknownProgram
from tocsin.offers.scan import OfferBook, OfferScan
from tocsin.offers.survivors import OfferCandidates

__all__ = [
    "Analysis",
    "OfferBook",
    "OfferCandidates",
    "OfferScan",
    "Program",
    "ProgramCache",
    "Programs",
    "ProgramsFile",
    "UnknownProgram",
    "open_programs",
    "programs_from",
]

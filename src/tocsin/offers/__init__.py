"""Offers: events whose publisher chooses among subscribers, and computes attributes for each of them.

    analysis.py        a document becomes an Offer (language/offer.py); texts are bound once
    program_files.py   those that a file declares
    programs.py        what formulas call: expressions and callables by name and version
    scan.py            OfferScan: the candidates of a batch of offers in one tier; offers that are held, for subscriptions to come
      requests.py        what an offer asks of rows, as intervals of columns, and what rows accept, as codes
      scan_kernel.py     which rows have a value in an interval, intersected for all offers at once
      survivors.py       what the scan leaves is decided, in groups of offers whose formulas are alike
      requests.py       computed attributes; values that ask nothing of the offer are kept

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

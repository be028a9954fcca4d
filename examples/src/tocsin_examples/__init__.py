"""Worlds to try Tocsin in: an auction house, the flights of New York, cameras above the city.

auction.py, members.py      an auction house: events, and what its members wait for
hammer.py, flohmarkt.py     two sites with schemas of their own;  integration.py: how they are translated
bazaar.py                   both in one market
flights.py                  real departures, and who waits for them
cameras.py, run_cameras.py  drawn snapshots, operators over them, and a map of what matched
worlds.py                   what `tocsin demo` can be about
house.py                    publishes, subscribes, counts;  open_house.py, welcome.py, front.py: its pages
run.py, inline.py, on_spark.py   who matches: an engine alone, the service, Spark
load.py                     the thesis's random client
cli/                        `tocsin demo` and `tocsin load`
"""

__version__ = "0.1.0"  # the same as Tocsin's; a test holds that

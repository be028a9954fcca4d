"""Tests of the laboratory: experiments at a tiny scale, the report, the advisor, pictures, matching inside databases."""

"""Conditions and derived columns: what is computed from each row alone.

An expression is read by a grammar that has nothing in it but the values of one row, and written anew for the engine
from the tree that was checked: strings in one safe form, everything in brackets, functions under their full names where
the engine has these. It never sees what the user wrote.
"""

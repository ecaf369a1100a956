"""Conditions: which rows count, decided by each row alone.

A condition is read by a grammar that has nothing in it but the values of one row, and written anew for the engine from
the tree that was checked: strings in one safe form, everything in brackets, functions under their full names where the
engine has these. The engine never sees what the user wrote.
"""

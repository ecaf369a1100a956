"""Pages for people: layout, style, pictures and tables that the report, the auditor's page and the web page share.

Every page is one file of HTML that needs nothing else. It runs no script and loads nothing, whatever the texts in it
hold: they are escaped, and a content security policy forbids the rest.
"""

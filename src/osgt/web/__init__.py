"""`osgt web`: plan and publish from a page. This layer parses, calls and renders; what it computes is elsewhere.

`gate` decides who may talk to the server, `form` reads the page's fields into a query file and back, `checking` opens
what they name and plans it, `jobs` runs what is charged, `pages` says it in words and pictures, `app` has the addresses
and `server` starts it all.
"""

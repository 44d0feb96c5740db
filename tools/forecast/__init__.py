"""What to expect before a GPU is booked: which layouts fit, how fast they are, what they cost, what will break.

`point` describes a configuration under a load, `steptime` holds the formulas, `estimate` puts figures and intervals
on points and anchors them on measured ones, `layouts` lists a node's layouts, `against` predicts measured tables.
`fit` finds the coefficients (`python -m day0.tools.forecast.fit POINTS.csv`), `score` says how far they can be trusted.
"""

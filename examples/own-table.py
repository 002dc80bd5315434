# own-table.py: writes own-table/client-NAME.csv
import csv, math, os, random

random.seed(1)
os.makedirs("own-table", exist_ok=True)
for name, age, risk in [("Aachen", 48, -4.0), ("Bonn", 55, -3.2), ("Celle", 62, -3.6),
                        ("Dresden", 50, -2.8), ("Emden", 66, -4.2)]:
    with open(f"own-table/client-{name}.csv", "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["patient", "age", "sex", "pressure", "creatinine", "outcome"])
        for patient in range(400):
            years, sex = random.gauss(age, 12), random.choice("fm")
            pressure, creatinine = random.gauss(125, 15), random.lognormvariate(-0.1, 0.3)
            odds = (risk + 0.05 * (years - age) + 0.04 * (pressure - 125) + 2 * (creatinine - 1)
                    + (sex == "m") * 0.5)
            ill = random.random() < 1 / (1 + math.exp(-odds))
            out.writerow([f"{name}-{patient}", round(years), sex, round(pressure), round(creatinine, 2),
                          "ill" if ill else "well"])

"""`python -m balloons.doctor > docs/doctor.md`: the page, made anew."""

from balloons.doctor.diagnose import ALL_CHECKS
from balloons.doctor.page import page

if __name__ == "__main__":
    print(page(ALL_CHECKS), end="")

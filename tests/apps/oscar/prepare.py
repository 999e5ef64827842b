"""Makes the shop's database: one product to buy and review, a country to ship to, and an operator."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")

import django

django.setup()

from django.contrib.auth import get_user_model
from django.core.management import call_command
from oscar.apps.address.models import Country
from oscar.test.factories import create_product

call_command("migrate", verbosity=0)
Country.objects.create(iso_3166_1_a2="GB", name="United Kingdom", is_shipping_country=True)
product = create_product(title="Mug", price=10, num_in_stock=1000)
get_user_model().objects.create_superuser("operator", "operator@shop.test", "a password of a test")
print(product.get_absolute_url())

"""django-oscar as its documentation sets it up, on SQLite; and `shop.books`, which writes each payment down."""

import os
from pathlib import Path

from oscar.defaults import *  # noqa: F403

HERE = Path(os.environ["SHOP_HOME"])
SECRET_KEY = "of a test"
DEBUG = False
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "shop.urls"
SITE_ID = 1
USE_TZ = True
STATIC_URL = "/static/"
MEDIA_ROOT = HERE / "media"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": HERE / "shop.sqlite3",
        "OPTIONS": {"timeout": 30, "transaction_mode": "IMMEDIATE"},
    }
}
EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
HAYSTACK_CONNECTIONS = {"default": {"ENGINE": "haystack.backends.simple_backend.SimpleEngine"}}
AUTHENTICATION_BACKENDS = ["oscar.apps.customer.auth_backends.EmailBackend", "django.contrib.auth.backends.ModelBackend"]
OSCAR_SHOP_NAME = "Shop"
OSCAR_ALLOW_ANON_CHECKOUT = True
OSCAR_MODERATE_REVIEWS = False
OSCAR_DEFAULT_CURRENCY = "GBP"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.sites",
    "django.contrib.flatpages",
    *[
        f"oscar{name}"
        for name in """.config.Shop .apps.analytics.apps.AnalyticsConfig .apps.checkout.apps.CheckoutConfig .apps.address.apps.AddressConfig
        .apps.shipping.apps.ShippingConfig .apps.catalogue.apps.CatalogueConfig .apps.catalogue.reviews.apps.CatalogueReviewsConfig
        .apps.communication.apps.CommunicationConfig .apps.partner.apps.PartnerConfig .apps.basket.apps.BasketConfig
        .apps.payment.apps.PaymentConfig .apps.offer.apps.OfferConfig .apps.order.apps.OrderConfig .apps.customer.apps.CustomerConfig
        .apps.search.apps.SearchConfig .apps.voucher.apps.VoucherConfig .apps.wishlists.apps.WishlistsConfig
        .apps.dashboard.apps.DashboardConfig .apps.dashboard.reports.apps.ReportsDashboardConfig
        .apps.dashboard.users.apps.UsersDashboardConfig .apps.dashboard.orders.apps.OrdersDashboardConfig
        .apps.dashboard.catalogue.apps.CatalogueDashboardConfig .apps.dashboard.offers.apps.OffersDashboardConfig
        .apps.dashboard.partners.apps.PartnersDashboardConfig .apps.dashboard.pages.apps.PagesDashboardConfig
        .apps.dashboard.ranges.apps.RangesDashboardConfig .apps.dashboard.reviews.apps.ReviewsDashboardConfig
        .apps.dashboard.vouchers.apps.VouchersDashboardConfig .apps.dashboard.communications.apps.CommunicationsDashboardConfig
        .apps.dashboard.shipping.apps.ShippingDashboardConfig""".split()
    ],
    "widget_tweaks",
    "haystack",
    "treebeard",
    "sorl.thumbnail",
    "django_tables2",
    "shop.books",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.contrib.flatpages.middleware.FlatpageFallbackMiddleware",
    "oscar.apps.basket.middleware.BasketMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.debug",
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.template.context_processors.i18n",
                "django.template.context_processors.media",
                "django.template.context_processors.static",
                "django.contrib.messages.context_processors.messages",
                "oscar.apps.search.context_processors.search_form",
                "oscar.apps.checkout.context_processors.checkout",
                "oscar.apps.communication.notifications.context_processors.notifications",
                "oscar.core.context_processors.metadata",
            ]
        },
    }
]

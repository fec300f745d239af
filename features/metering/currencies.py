"""Currencies: those of ISO 4217 that are paid in, and how many digits behind the point. Facts.

Funds, metals, test codes and units of account are left out, and so is what is no longer tender.
"""

from collections.abc import Mapping

BY_DIGITS: Mapping[int, str] = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF",
    2: """AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY COP CRC
    CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES
    KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR
    NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT
    TOP TRY TTD TWD TZS UAH USD UYU UZS VED VES WST XCD XCG YER ZAR ZMW ZWG""",
    3: "BHD IQD JOD KWD LYD OMR TND",
}
MEANT: Mapping[str, str] = {"RMB": "CNY", "CNH": "CNY", "YEN": "JPY", "EURO": "EUR", "STG": "GBP", "BGN": "EUR"}
"""What people write instead."""
CURRENCIES = frozenset(code for codes in BY_DIGITS.values() for code in codes.split())

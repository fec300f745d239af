"""Files of a small purchase: two zones with a rack each, two SKUs, a service that survives the loss of a zone."""

from pathlib import Path

from cohabit.capacity.purchases.purchase_inputs import PurchaseFiles

FILES = {
    "skus": (
        "sku,cpu_milli,memory_mib,gpu,gpu_model,ports,port_gbps,power_w,units,price,life_months,lead_days,lot,max",
        "c32,32000,65536,0,,1,25,450,1,7200,48,30,1,",
        "g16,16000,65536,2,A30,1,25,900,1,24000,48,60,1,4",
    ),
    "racks": ("rack,zone,room,kw,units,ports", "a1,a,hall-1,4.0,20,8x25+4x100", "b1,b,hall-2,4.0,20,16"),
    "fleet": ("sku,rack,machines", "c32,a1,2", "c32,b1,2"),
    "in_flight": ("sku,rack,machines,deliver_by", "c32,a1,1,2027-02-10"),
    "retire": ("sku,rack,machines,retire_by", "c32,b1,1,2027-03-31"),
    "demand": (
        "month,shape,cpu_milli,memory_mib,gpu,gpu_milli,gpu_models,prod,min_domains,pods",
        "2027-01,web,4000,8192,0,0,,yes,2,10",
        "2027-02,web,4000,8192,0,0,,yes,2,12",
        "2027-03,web,4000,8192,0,0,,yes,2,20",
        "2027-03,infer,4000,8192,0,600,A30,no,1,2",
    ),
    "events": ("event,from,to,shape,uplift_percent", "sale,2027-02-20,2027-03-05,web,50"),
}
"""Lines of each file, the header first."""


def written_files(folder: Path, **changed: tuple[str, ...]) -> PurchaseFiles:
    """The files in a folder, some with other lines."""
    found = {}
    for name, lines in {**FILES, **changed}.items():
        found[name] = folder / f"{name}.csv"
        found[name].write_text("\n".join(lines) + "\n")
    return PurchaseFiles(**found)


def with_line(name: str, at: int, text: str) -> tuple[str, ...]:
    """Lines of a file, one of them replaced; the header is 0."""
    lines = list(FILES[name])
    lines[at] = text
    return tuple(lines)

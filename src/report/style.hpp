// The look of every page and chart, in one place.
//
// Series colours --s0…--s7 can be told apart with any colour blindness (Okabe and Ito's hues,
// darkened for a light page and lightened for a dark one); series beyond eight are dashed.
#pragma once

#include <string_view>

namespace tessera {

inline constexpr int kSeriesColours = 8;

inline constexpr std::string_view kPalette = R"css(
:root{--page:#f5f6f8;--card:#fff;--ink:#1a2230;--soft:#5a6475;--line:#dfe3ea;--grid:#e9ecf1;
--accent:#0b63b0;--heat:#0b4f94;--shade:#c3cad6;
--s0:#0072b2;--s1:#d55e00;--s2:#00845f;--s3:#b0508a;--s4:#b07d00;--s5:#2f9fdb;--s6:#6b7482;
--s7:#7a4fc0}
@media (prefers-color-scheme:dark){:root{--page:#10141b;--card:#181e28;--ink:#e9edf4;
--soft:#a3adbd;--line:#313a49;--grid:#262e3b;--accent:#6db7f2;--heat:#7cc0f8;--shade:#4b5a70;
--s0:#56b4f0;--s1:#ff8a3d;--s2:#2fcb9c;--s3:#e793c4;--s4:#f0bf3c;--s5:#9ad8ff;--s6:#a9b2c0;
--s7:#b79bf5}}
@media print{:root{--page:#fff;--card:#fff;--ink:#000;--soft:#444;--line:#ccc;--grid:#e5e5e5;
--accent:#0b63b0;--heat:#0b4f94;--shade:#fff;
--s0:#0072b2;--s1:#d55e00;--s2:#00845f;--s3:#b0508a;--s4:#b07d00;--s5:#2f9fdb;--s6:#6b7482;
--s7:#7a4fc0}}
)css";

inline constexpr std::string_view kPageStyle = R"css(
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif}
main{max-width:1120px;margin:0 auto;padding:32px 20px 48px}
header{margin-bottom:20px}
h1{font-size:30px;line-height:1.2;margin:0 0 6px;letter-spacing:-.01em;overflow-wrap:anywhere}
h1 .dim{color:var(--soft);font-weight:400}
h2{font-size:19px;margin:36px 0 12px}
h3{font-size:15px;margin:0 0 8px}
header p{margin:0;color:var(--soft);overflow-wrap:anywhere}
.badge{display:inline-block;padding:1px 9px;border-radius:10px;background:var(--s1);
color:var(--card);font-size:13px;font-weight:600;vertical-align:1px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(138px,1fr));gap:12px;margin:0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:12px}
.tile.main{border-left:4px solid var(--accent);grid-column:span 2}
.tile.main .value{font-size:30px;color:var(--accent)}
dt{color:var(--soft);font-size:13px}
dd{margin:0}
.value{display:block;font-size:20px;letter-spacing:-.01em;line-height:1.3;font-weight:650;
white-space:nowrap;font-variant-numeric:tabular-nums}
.note{display:block;color:var(--soft);font-size:12.5px;line-height:1.35}
figure{background:var(--card);border:1px solid var(--line);border-radius:10px;margin:0 0 16px;
padding:16px 18px 12px;min-width:0}
figcaption{color:var(--soft);font-size:13px;margin-top:6px}
.none{margin:4px 0;color:var(--soft);font-size:13.5px}
.plot{overflow-x:auto}
/* A shade at the edge behind which there is more; covered where there is not. */
.plot.wide,.scroll{background:
linear-gradient(90deg,var(--card) 40%,transparent) 0 0/36px 100% no-repeat local,
linear-gradient(270deg,var(--card) 40%,transparent) 100% 0/36px 100% no-repeat local,
linear-gradient(90deg,var(--shade),transparent) 0 0/14px 100% no-repeat scroll,
linear-gradient(270deg,var(--shade),transparent) 100% 0/14px 100% no-repeat scroll,var(--card)}
.plot svg{display:block;width:100%;height:auto}
.plot svg:not(.wide){max-width:560px}
.plot svg+svg{margin-top:10px}
.panels{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(290px,100%),1fr));gap:16px}
.panels.stacked{grid-template-columns:minmax(0,1fr)}
.panels h4{font-size:13px;font-weight:600;color:var(--soft);margin:0 0 4px}
.row{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(320px,100%),1fr));gap:16px}
.row figure{margin-bottom:16px}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;margin:0 0 16px}
.scroll{overflow-x:auto;border-radius:0 0 10px 10px}
table{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums}
.caption{color:var(--soft);margin:0;padding:10px 12px 4px;font-size:13px}
th,td{padding:5px 12px;text-align:left;border-top:1px solid var(--grid);overflow-wrap:break-word}
thead th{white-space:normal;border-top:0;border-bottom:1px solid var(--line);color:var(--soft);
font-weight:600;vertical-align:bottom}
.number{text-align:right}
td.number{white-space:nowrap}
.reason{color:var(--soft)}
td a,p a{color:var(--accent)}
th button{all:unset;cursor:pointer}
th button:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
th[aria-sort=ascending] button::after{content:" ▲"}
th[aria-sort=descending] button::after{content:" ▼"}
tr.bold td{font-weight:700}
details{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:10px 16px}
details .card{border:0;border-radius:0;margin:0}
summary{cursor:pointer;font-weight:600}
pre{overflow-x:auto;font:12.5px/1.5 ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;
margin:10px 0 4px}
footer{color:var(--soft);font-size:13px;margin-top:28px}
@media screen and (max-width:700px){.plot svg:not(.wide){max-width:380px}
.plot.wide::before{content:"scroll sideways ↔";display:block;position:sticky;left:0;
width:max-content;color:var(--soft);font-size:12px;margin-bottom:4px}
main{padding:18px 12px}.plot svg.wide{min-width:820px}h1{font-size:24px}}
@page{margin:12mm}
@media print{body{zoom:.72}main{max-width:none;padding:0}
.tiles{grid-template-columns:repeat(auto-fit,minmax(110px,1fr))}
figure,.tile,tr{break-inside:avoid}h2{break-after:avoid}.scroll,.plot{overflow:visible}
pre{white-space:pre-wrap}}
)css";

/// Of what is drawn inside an <svg>, in a page or in a file of its own.
inline constexpr std::string_view kChartStyle = R"css(
svg text{fill:var(--ink);font-size:12px;font-family:inherit}
svg .soft{fill:var(--soft)}
svg .title{fill:var(--soft);font-size:12.5px}
svg .strong{font-weight:650}
svg .grid{stroke:var(--grid);stroke-width:1}
svg .axis{stroke:var(--line);stroke-width:1}
svg .mark{stroke:var(--soft);stroke-width:1;stroke-dasharray:3 3}
svg .curve{fill:none;stroke-width:2.2;stroke-linejoin:round;stroke-linecap:round}
svg .band{opacity:.13;stroke:none}
svg .dot{stroke:var(--card);stroke-width:1}
svg .hit{fill:transparent;stroke:none}
svg .link{stroke-width:2.5;stroke-opacity:.38;stroke-linecap:round}
svg .cell{fill:var(--heat)}
svg .bubble{fill:var(--heat);fill-opacity:.82}
svg .on{fill:var(--card)}
svg .hole{fill:var(--card);stroke-width:1.8}
svg .edge{fill:none;stroke:var(--heat)}
svg image{image-rendering:pixelated}
svg .frame{fill:none;stroke:var(--line);stroke-width:1}
svg .hit:hover{fill:var(--ink);fill-opacity:.25}
)css";

}  // namespace tessera

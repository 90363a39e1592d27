const b=document.getElementById('theme'),r=document.documentElement,m=matchMedia('(prefers-color-scheme: dark)');
let d=m.matches;
const s=()=>{b.textContent=d?b.dataset.light:b.dataset.dark};
b.hidden=false;s();b.onclick=()=>{d=!d;r.style.colorScheme=d?'dark':'light';s()};

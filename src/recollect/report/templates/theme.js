const b=document.getElementById('theme'),r=document.documentElement,m=matchMedia('(prefers-color-scheme: dark)');
let d=m.matches;
const s=()=>{b.textContent=d?'Light page':'Dark page'};
b.hidden=false;s();b.onclick=()=>{d=!d;r.style.colorScheme=d?'dark':'light';s()};

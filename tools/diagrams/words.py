"""What diagrams say: each label in Chinese, by the terms of docs/glossary.zh.md, and what each figure shows."""

import re

SAME = frozenset(("tanh", "softmax", "sin", "cos", "CNN", "RNN", "LSTM", "GRU", "TTT"))  # in all languages
CHINESE = {
    # chapters 1 to 3
    "seen: interpolation": "见过的：内插",
    "ahead: extrapolation": "未见的：外推",
    "the last $τ$ values": "最近 $τ$ 个值",
    "one step later": "下一步",
    "fed back": "送回",
    "one cell with a loop": "带回路的一个单元",
    "unrolled: many copies, one set of weights $W$, $U$, $V$": "展开：许多份拷贝，一套权重 $W$、$U$、$V$",
    "random lengths": "长短随机",
    "equal lengths: truncated": "长短相等：截断",
    "no cut: full": "不切：完整",
    "the state always goes on": "状态一路传下去",
    "the gradient ends at a cut": "梯度到切口为止",
    # chapter 4
    "every step back: × diag(1 − $h^2$)$U$, here like × 0.5": "每往回一步：× diag(1 − $h^2$)$U$，这里设为 × 0.5",
    "every step back: × $f$, here 0.95": "每往回一步：× $f$，这里设为 0.95",
    "forget gate": "遗忘门",
    "input gate": "输入门",
    "output gate": "输出门",
    "reset gate": "重置门",
    "update gate": "更新门",
    "candidate": "候选值",
    "candidate cell": "候选记忆元",
    "$z$ = 1: keep; $z$ = 0: replace by $n$": "$z$ = 1：保留；$z$ = 0：换成 $n$",
    # chapters 5 to 7
    "encoder": "编码器",
    "decoder": "解码器",
    "source, read by the encoder": "编码器读过的源句",
    "query": "查询",
    "values": "值",
    "picture": "图像",
    "features $h_{ij}$: (red, round)": "特征 $h_{ij}$：（红，圆）",
    "question": "提问",
    "red": "红",
    "round": "圆",
    # chapters 8 and 9
    "romance": "爱情",
    "action": "动作",
    "agreement": "点积",
    "weight": "权重",
    "every row sums to 1": "每行之和为 1",
    "known: $k_j$, $v_j$": "已知：$k_j$、$v_j$",
    "forecast $v̂$($q$)": "预测 $v̂$($q$)",
    "weights: nearness to $q$": "权重：离 $q$ 的远近",
    "side by side": "并排",
    "place $t$ looks at $i$": "位置 $t$ 看位置 $i$",
    "$e_{t,i}$ = −∞ for $i > t$": "$i > t$ 时 $e_{t,i}$ = −∞",
    "positions, $D$ = 8: a wave for each pair of numbers": "位置，$D$ = 8：每一对数是一种波",
    # chapters 10 to 12
    "source + positions": "源序列 + 位置",
    "target so far + positions": "已写的目标 + 位置",
    "layer norm": "层规范化",
    "self-attention": "自注意力",
    "masked": "掩蔽",
    "cross-attention": "交叉注意力",
    "feed-forward": "前馈网络",
    "encoder, × $N$": "编码器，× $N$",
    "decoder, × $N$": "解码器，× $N$",
    "next word": "下一个词",
    "recurrence": "循环",
    "convolution, $k$ = 3": "卷积，$k$ = 3",
    "attention": "注意力",
    "path $T$ − 1; one step after another": "路长 $T$ − 1；一步等一步",
    "path ($T$ − 1) ∕ ($k$ − 1); all places at once": "路长 ($T$ − 1) ∕ ($k$ − 1)；所有位置同时算",
    "path 1; all places at once; $T$($T$ + 1) ∕ 2 pairs": "路长 1；所有位置同时算；$T$($T$ + 1) ∕ 2 对",
    "receptive field $R$ = 1 + 2·(1 + 2 + 4) = 15": "感受野 $R$ = 1 + 2·(1 + 2 + 4) = 15",
    "a vector": "向量",
    "a list": "列表",
    "weights": "权重",
    "attention: $k$, $v$": "注意力：$k$、$v$",
    "append $k$, $v$": "添上 $k$、$v$",
    "overwritten; same size": "被改写；大小不变",
    "nothing lost; grows": "什么都不丢；不断增长",
    "trained; same size": "被训练；大小不变",
    "one new token": "一个新词元",
    "cache": "缓存",
    "one step of training": "训练一步",
    "read with the new weights": "用新的权重读",
    # chapter 13
    "forget": "遗忘",
    "write": "写入",
    "add: without the dashed way; delta: with it": "相加：没有虚线那一路；增量：有",
}


def say(label: str, language: str) -> str:
    """A label in a language, line by line. Mathematics, numbers and words between ‘ and ’ are the same in all."""
    return "\n".join(_say(line, language) for line in label.split("\n"))


def _say(line: str, language: str) -> str:
    if language != "en" and _speaks(line):
        return CHINESE[line]
    return line.replace("‘", "").replace("’", "")


def _speaks(line: str) -> bool:
    """Whether a line has words that differ between languages."""
    return bool({*re.findall(r"[A-Za-z-]{2,}", re.sub(r"\$[^$]*\$|‘[^’]*’", " ", line))} - SAME)

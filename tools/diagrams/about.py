"""The name of every figure and what it shows, for those who do not see it, in both languages."""

ABOUT: dict[str, dict[str, tuple[str, str]]] = {
    "sequence": {
        "en": (
            "A window of the last τ values",
            "Points of a series, seen on the left and forecast on the right. Below, the last four seen values go "
            "into f, which says the next one; a step later the window has moved by one and holds that forecast "
            "as if it had been seen.",
        ),
        "zh": (
            "由最近 τ 个值构成的窗口",
            "一个序列的点，左边是见过的，右边是预测的。下面，最近四个见过的值送入 f，得到下一个值；再走一步，窗口"
            "移动一格，把刚才的预测当作见过的值放进来。",
        ),
    },
    "unrolled-rnn": {
        "en": (
            "A recurrent network, with its loop and unrolled",
            "Left: a cell with state h that reads x through W, its own last state through U, and writes o "
            "through V. Right: the same cell at steps 1 to 4, each with the same W, U and V; the state goes from "
            "step to step.",
        ),
        "zh": (
            "循环神经网络：带回路的样子与展开的样子",
            "左：状态为 h 的单元经 W 读 x，经 U 读自己上一步的状态，经 V 写 o。右：同一个单元在第 1 到第 4 步，每"
            "一步用的都是同样的 W、U、V，状态一步步传下去。",
        ),
    },
    "bptt-cuts": {
        "en": (
            "Three ways to cut backpropagation through time",
            "The beginning of The Time Machine three times. The state runs forwards through all of it. The "
            "gradient runs backwards and ends at cuts: at random places, at equal distances, nowhere.",
        ),
        "zh": (
            "通过时间反向传播的三种切法",
            "《时间机器》的开头出现三次。状态向前穿过全文；梯度往回走，到切口为止：随机的切口，等距的切口，没有切口。",
        ),
    },
    "gradient-path": {
        "en": (
            "The way of a gradient back through an RNN and through an LSTM's cell",
            "Bars show how much of a gradient is left at each step back. RNN: multiplied by diag(1 − h²)U at "
            "every step, drawn for a factor of 0.5, from 1.00 down to 0.03. LSTM: weighed by the forget gate f, "
            "drawn for 0.95, down to 0.77.",
        ),
        "zh": (
            "梯度沿循环神经网络与沿 LSTM 记忆元往回走的路",
            "柱子表示每往回一步梯度还剩多少。循环神经网络：每一步乘 diag(1 − h²)U，图中按因子 0.5 画，从 1.00 降"
            "到 0.03。LSTM：只由遗忘门 f 衡量，图中按 0.95 画，降到 0.77。",
        ),
    },
    "lstm-cell": {
        "en": (
            "The cell of an LSTM",
            "The memory cell c runs straight through: it is scaled by the forget gate f, then the candidate g, "
            "scaled by the input gate i, is added. The output h is tanh of c, scaled by the output gate o. All "
            "gates and the candidate read x and the last h.",
        ),
        "zh": (
            "LSTM 单元",
            "记忆元 c 一直穿过：先由遗忘门 f 缩放，再加上由输入门 i 缩放的候选记忆元 g。输出 h 是 c 的 tanh，由输"
            "出门 o 缩放。三个门和候选记忆元都读 x 和上一步的 h。",
        ),
    },
    "gru-cell": {
        "en": (
            "The cell of a GRU",
            "The state h is scaled by the update gate z and the candidate n, scaled by 1 − z, is added. The "
            "candidate reads x and the last h scaled by the reset gate r. Both gates read x and the last h.",
        ),
        "zh": (
            "GRU 单元",
            "状态 h 由更新门 z 缩放，再加上由 1 − z 缩放的候选值 n。候选值读 x，以及由重置门 r 缩放的上一步 h。两"
            "个门都读 x 和上一步的 h。",
        ),
    },
    "encoder-decoder": {
        "en": (
            "Encoder and decoder with one vector between them",
            "The encoder reads I do not know into its last state, c. The decoder writes je ne sais pas and reads "
            "each word that it wrote. Above, fixed: c is the decoder's first state. Below, context: c is an "
            "input of every step.",
        ),
        "zh": (
            "编码器与解码器，中间只有一个向量",
            "编码器把 I do not know 读成最后的状态 c。解码器写出 je ne sais pas，每步读上一个词。上，fixed：c 是"
            "解码器的初始状态。下，context：c 是每一步的输入。",
        ),
    },
    "both-ways": {
        "en": (
            "A recurrent encoder that reads both ways",
            "One chain of states runs from the first word to the last, another from the last to the first. What "
            "stands for a word is both of its states together, so that it knows what comes before and after.",
        ),
        "zh": (
            "双向的循环编码器",
            "一条状态链从第一个词走到最后一个，另一条从最后一个走到第一个。代表一个词的是它的两个状态合在一起，所"
            "以前文后文都知道。",
        ),
    },
    "alignment-step": {
        "en": (
            "One step of soft alignment",
            "The decoder's last state scores each of three source states, 1, 2 and 4. A softmax makes the "
            "weights 0.042, 0.114 and 0.844; the weighted sum of the source states, 3.646, is the context of the "
            "next decoder state, which says y.",
        ),
        "zh": (
            "软对齐的一步",
            "解码器上一步的状态与三个源状态 1、2、4 分别打分。softmax 得到权重 0.042、0.114、0.844；源状态的加权"
            "和 3.646 就是上下文，解码器的下一个状态由它得到，并说出 y。",
        ),
    },
    "picture-to-words": {
        "en": (
            "From a picture to words, and where the decoder looks",
            "A picture with a red disc at the top right and a grey one at the bottom left becomes a grid of "
            "features (red, round). Asking for red, the decoder puts 0.711 of its weight on the red disc; asking "
            "for round, 0.440 on each disc.",
        ),
        "zh": (
            "从图像到词，以及解码器在看哪里",
            "右上有一个红色圆、左下有一个灰色圆的图像变成特征（红，圆）的网格。问“红”时，权重的 0.711 落在红色"
            "的圆上；问“圆”时，两个圆各得 0.440。",
        ),
    },
    "dot-product": {
        "en": (
            "From dot products to weights to a mixture",
            "Three vectors in the plane of romance and action: (1, 0), (1, 1), (0, 2). The second has products "
            "1, 2, 2 with them. A softmax makes the weights 0.155, 0.422, 0.422, and their mixture is y₂ = "
            "(0.58, 1.27).",
        ),
        "zh": (
            "从点积到权重，再到混合",
            "爱情与动作的平面上有三个向量：(1, 0)、(1, 1)、(0, 2)。第二个与它们的点积是 1、2、2；softmax 得到权重"
            " 0.155、0.422、0.422，混合的结果是 y₂ = (0.58, 1.27)。",
        ),
    },
    "qkv": {
        "en": (
            "Queries, keys and values as matrices",
            "X times W_q, W_k and W_v gives Q, K and V, a row for each word. QKᵀ/√d has a score for each pair "
            "of words; a softmax of each row makes weights, and the weights times V are Y. The numbers are those "
            "of the words (1, 0), (1, 1), (0, 2) with all three maps the identity.",
        ),
        "zh": (
            "查询、键、值写成矩阵",
            "X 乘以 W_q、W_k、W_v 得到 Q、K、V，每个词一行。QKᵀ/√d 为每对词给出一个分数；逐行 softmax 得到权重，"
            "权重乘 V 就是 Y。图中的数取自 (1, 0)、(1, 1)、(0, 2) 三个词，三个映射都取恒等映射。",
        ),
    },
    "kernel-regression": {
        "en": (
            "Kernel regression as attention",
            "Seven known points, a query q between them, and below a bell around q: each point weighs as much as "
            "the bell is high over it. The forecast at q is the weighted mean of the known values; a curve shows "
            "it for every q.",
        ),
        "zh": (
            "核回归就是注意力",
            "七个已知的点，中间有一个查询 q；下面是以 q 为中心的钟形曲线，每个点的权重就是曲线在该处的高度。q 处"
            "的预测是已知值的加权平均，橙色曲线给出每个 q 的预测。",
        ),
    },
    "heads": {
        "en": (
            "Three heads",
            "X is mapped to queries, keys and values for each of three heads, a third as wide. Each head has "
            "weights of its own: on the word before, on all words alike, on the first word (drawn as examples). "
            "Their answers stand side by side and are mixed by W_o.",
        ),
        "zh": (
            "三个头",
            "X 为三个头各映射出查询、键、值，宽度都是三分之一。每个头有自己的权重：看前一个词，平均地看所有词，看"
            "第一个词（仅为示意）。各头的回答并排放好，再由 W_o 混合。",
        ),
    },
    "mask-positions": {
        "en": (
            "A causal mask, and waves of a positional encoding",
            "Above: a table of five places that look (rows) at five places (columns). The diagonal and what is "
            "below it are open; above it, in the future, scores are −∞. Below: the first three pairs of a "
            "positional encoding with D = 8, sine and cosine of t, t/10 and t/100, for places 0 to 22.",
        ),
        "zh": (
            "因果掩蔽，以及位置编码的波",
            "上：五个位置（行）看五个位置（列）的表。对角线及其下方是开放的；上方属于未来，分数为 −∞。"
            "下：D = 8 的位置编码的前三对，即位置 0 到 22 上 t、t/10、t/100 的正弦与余弦。",
        ),
    },
    "transformer-block": {
        "en": (
            "A block of the encoder and one of the decoder",
            "Encoder: self-attention, then a feed-forward network, each with a norm before it and a shortcut "
            "around both. Decoder: masked self-attention, cross-attention whose keys and values come from the "
            "encoder's output, and a feed-forward network. Norms stand before the sublayers (pre), and one at "
            "the end of each stack.",
        ),
        "zh": (
            "编码器的一个块和解码器的一个块",
            "编码器：自注意力，然后是前馈网络，各自前面有一次规范化，外面有一条残差连接。解码器：掩蔽自注意力，键"
            "和值来自编码器输出的交叉注意力，以及前馈网络。规范化放在子层之前（pre），每一叠的末尾还有一次。",
        ),
    },
    "three-methods": {
        "en": (
            "Recurrence, convolution, attention: the way from the first input to the last output",
            "Seven inputs. Recurrence: six steps from state to state. Causal convolution of width 3: three "
            "layers, each two places further. Attention: one step; every place looks at itself and all before it.",
        ),
        "zh": (
            "循环、卷积、注意力：从第一个输入到最后一个输出的路",
            "七个输入。循环：从状态到状态走六步。宽度为 3 的因果卷积：三层，每层跨两个位置。注意力：一步；每个位"
            "置看自己和之前的全部。",
        ),
    },
    "receptive-field": {
        "en": (
            "The receptive field of dilated causal convolutions",
            "Three layers of width 3 with dilations 1, 2 and 4. The last output depends on three units below it, "
            "these on seven, these on all fifteen inputs.",
        ),
        "zh": (
            "带膨胀的因果卷积的感受野",
            "三层，宽度为 3，膨胀系数为 1、2、4。最后一个输出取决于下面的三个单元，它们取决于七个，再取决于全部十"
            "五个输入。",
        ),
    },
    "three-stores": {
        "en": (
            "Three stores",
            "Over three inputs: the vector h of an RNN is overwritten and keeps its size; attention's list of "
            "keys and values grows by one pair a step; the weights W of test-time training take a step down a "
            "gradient and keep their size.",
        ),
        "zh": (
            "三种存储",
            "读三个输入：循环神经网络的向量 h 被改写，大小不变；注意力的键值列表每步增加一对；测试时训练的权重 W "
            "每步沿梯度走一步，大小不变。",
        ),
    },
    "kv-cache": {
        "en": (
            "A KV cache over four steps",
            "At each step one new token gives one query, one key and one value. Key and value are put at the end "
            "of the cache; the query looks at all that is in it. What was there before is not computed again.",
        ),
        "zh": (
            "KV 缓存的四步",
            "每一步，一个新词元给出一个查询、一个键、一个值。键和值添在缓存末尾；查询看遍缓存中的全部。原有的不再"
            "重算。",
        ),
    },
    "ttt-step": {
        "en": (
            "One step of test-time training",
            "The input gives a key, a value and a query. The inner model f with weights W of the step before is "
            "shown the key; its loss against the value gives a gradient, which is taken from W. The query is "
            "read with the new W.",
        ),
        "zh": (
            "测试时训练的一步",
            "输入给出键、值、查询。内部模型 f 带着上一步的权重 W 读键；它与值之间的损失给出梯度，从 W 中减去。再"
            "用新的 W 读查询。",
        ),
    },
    "matrix-dials": {
        "en": (
            "One matrix, three dials",
            "The matrix S of the step before is multiplied by α: it forgets. With an add, the value v, times β, is "
            "added under the key k. With a delta rule, what S now answers to k is taken from v first: the dashed "
            "way. The new S is read with the query q.",
        ),
        "zh": (
            "一个矩阵，三个旋钮",
            "上一步的矩阵 S 乘以 α：遗忘。若是相加，值 v 乘以 β，加在键 k 之下。若是增量规则，先从 v 中减去 S 此时对 k "
            "的回答：虚线那一路。再用查询 q 读新的 S。",
        ),
    },
}

"""The registry of known public sets: add a set by adding its entry to `KNOWN`.

A file is named by its path in the data folder (packed or not) and identified by size and sha256; without an address it
has to be put there by hand.
"""

from .download import KnownFile
from .kinds import CaptionSet, KnownSet, LabelSet, SeriesSet, SoundSet, TextSet, TranslationSet


def _file(path: str, size: int, sha256: str, text_sha256: str | None = None, address: str | None = None) -> KnownFile:
    return KnownFile(path=path, sha256=sha256, text_sha256=text_sha256 or sha256, size=size, address=address)


_WIKITEXT = "https://raw.githubusercontent.com/pytorch/examples/main/word_language_model/data/wikitext-2/"
_MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/"
_ETT = "https://raw.githubusercontent.com/zhouhaoyi/ETDataset/main/ETT-small/"
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_SST2 = "https://raw.githubusercontent.com/clairett/pytorch-sentiment-classification/master/data/SST2/"
_FLICKR8K_CAPTIONS = _file(
    "flickr8k/Flickr8k.token.txt.gz",
    2_974_628,
    "fee3312b032ac2de9ee66c637ecea8c0cbd99832a6c6fdc30d132423fdb1e1d2",
    "58394263a018834e603d1cde7512cf34a752fbf2f40535f4aaa2eda77e0ed4a3",
)
KNOWN: dict[str, KnownSet] = {
    found.name: found
    for found in (
        TextSet(
            name="tinyshakespeare",
            about="1,115,394 characters of Shakespeare's plays, 65 symbols",
            licence="text in the public domain",
            splits={
                "train": (
                    _file(
                        "tinyshakespeare/input.txt",
                        1_115_394,
                        "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
                        address="https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
                    ),
                ),
            },
        ),
        TextSet(
            name="timemachine",
            about="The Time Machine by H. G. Wells, as Dive into Deep Learning uses it",
            licence="text in the public domain",
            splits={
                "train": (
                    _file(
                        "timemachine/timemachine.txt",
                        178_979,
                        "8424dbd9532ac81f7e5f0b6add90e6952baea29158309d7d1bf3884f4e12c516",
                        address="http://d2l-data.s3-accelerate.amazonaws.com/timemachine.txt",
                    ),
                ),
            },
        ),
        TextSet(
            name="wikitext2",
            about="WikiText-2: articles as words, rare ones as <unk>; 2,088,628 / 217,646 / 245,569 tokens",
            licence="CC BY-SA",
            splits={
                "train": (
                    _file(
                        "wikitext2/train.txt.gz",
                        10_797_148,
                        "0c202e0b5d919429261b7291d9b5998f0db680c0a6700c0ff2a886d0abe055d4",
                        "9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f",
                        address=_WIKITEXT + "train.txt",
                    ),
                ),
                "valid": (
                    _file(
                        "wikitext2/valid.txt.gz",
                        1_121_681,
                        "3ac34ae2b6509075d52302c50a04a8a1970739ffe1a904f2cd374fefbea3cbf2",
                        "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
                        address=_WIKITEXT + "valid.txt",
                    ),
                ),
                "test": (
                    _file(
                        "wikitext2/test.txt.gz",
                        1_256_449,
                        "a2b26b5d2619cc1f6cd34c8e116a451aed09af51479346aadfbf508ceb8b192e",
                        "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
                        address=_WIKITEXT + "test.txt",
                    ),
                ),
            },
        ),
        TextSet(
            name="tang",
            about="14,008 poems of the Tang, one a line, title：text, in traditional characters",
            licence="collection MIT; poems in the public domain",
            origin="poems of poet.tang.*.json in github.com/chinese-poetry/chinese-poetry, one a line, title：text",
            splits={
                "train": (
                    _file(
                        "tang_poems/poems.txt.gz",
                        3_215_296,
                        "7b4cf7b99a5711bcd02a73a10ba5d4483cf2e8554388a7623ce726df9a54ccf9",
                        "f32acc77be7cc3df1b879133ef60fae132e2dc40113863225f8969a838b36f21",
                    ),
                ),
            },
        ),
        TranslationSet(
            name="multi30k",
            about="descriptions of pictures in English, German and French; 29,000 / 1,014 / 1,000 (test_2016_flickr)",
            licence="non-commercial research",
            languages=("en", "de", "fr"),
            splits={
                "train": (
                    _file(
                        "multi30k/train.en.gz",
                        1_801_238,
                        "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
                        "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
                        address=_MULTI30K + "train.en.gz",
                    ),
                    _file(
                        "multi30k/train.de.gz",
                        2_110_398,
                        "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
                        "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
                        address=_MULTI30K + "train.de.gz",
                    ),
                    _file(
                        "multi30k/train.fr.gz",
                        2_111_303,
                        "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c",
                        "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d",
                        address=_MULTI30K + "train.fr.gz",
                    ),
                ),
                "valid": (
                    _file(
                        "multi30k/val.en.gz",
                        63_297,
                        "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
                        "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
                        address=_MULTI30K + "val.en.gz",
                    ),
                    _file(
                        "multi30k/val.de.gz",
                        75_981,
                        "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
                        "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
                        address=_MULTI30K + "val.de.gz",
                    ),
                    _file(
                        "multi30k/val.fr.gz",
                        73_924,
                        "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9",
                        "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc",
                        address=_MULTI30K + "val.fr.gz",
                    ),
                ),
                "test": (
                    _file(
                        "multi30k/test_2016_flickr.en.gz",
                        62_076,
                        "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
                        "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
                        address=_MULTI30K + "test_2016_flickr.en.gz",
                    ),
                    _file(
                        "multi30k/test_2016_flickr.de.gz",
                        70_649,
                        "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
                        "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
                        address=_MULTI30K + "test_2016_flickr.de.gz",
                    ),
                    _file(
                        "multi30k/test_2016_flickr.fr.gz",
                        72_261,
                        "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90",
                        "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6",
                        address=_MULTI30K + "test_2016_flickr.fr.gz",
                    ),
                ),
            },
        ),
        TranslationSet(
            name="tatoeba-fra",
            about="167,130 pairs of short sentences, English and French, from Tatoeba by way of manythings.org",
            licence="CC BY 2.0",
            languages=("en", "fr"),
            origin="fra.txt of fra-eng.zip, from manythings.org/anki, packed with gzip",
            splits={
                "train": (
                    _file(
                        "tatoeba_eng_fra/fra.txt.gz",
                        11_669_748,
                        "3f7ce9b82d57439edff14f487e2ef9fd52ad72757a838857f153fa4668dd6066",
                        "0bb85dbaa1c896844649094d7eaf2e34bee34e84fe362b26ce7e8f2e12aae104",
                    ),
                ),
            },
        ),
        TranslationSet(
            name="tatoeba-cmn",
            about="29,155 pairs of short sentences, English and Chinese, from Tatoeba by way of manythings.org",
            licence="CC BY 2.0, attribution in each line",
            languages=("en", "zh"),
            origin="cmn.txt of cmn-eng.zip, from manythings.org/anki, packed with gzip",
            splits={
                "train": (
                    _file(
                        "tatoeba_eng_cmn/cmn.txt.gz",
                        4_151_383,
                        "0350a4a8aef14475fc09e49ba5cb9ecd7cbbae9afa99d92ebe16978f6eeb7752",
                        "aa264a2447b26ab7c9d413f8321f9e2a779fd134b5118306b6e26a3499b3926e",
                    ),
                ),
            },
        ),
        SeriesSet(
            name="etth1",
            about="Electricity Transformer Temperature, hourly: 17,420 rows of 7 columns, 2016 to 2018",
            licence="CC BY-ND 4.0",
            period=24,
            rows=(8_640, 2_880, 2_880),
            splits={
                "train": (
                    _file(
                        "ett/ETTh1.csv.gz",
                        2_589_657,
                        "3c56c865b8f6fc9b760a07f055ff8a993d3cf2a747235dc382b98821ed35f029",
                        "f18de3ad269cef59bb07b5438d79bb3042d3be49bdeecf01c1cd6d29695ee066",
                        address=_ETT + "ETTh1.csv",
                    ),
                ),
            },
        ),
        SeriesSet(
            name="ettm1",
            about="Electricity Transformer Temperature, every 15 minutes: 69,680 rows of 7 columns",
            licence="CC BY-ND 4.0",
            period=96,
            rows=(34_560, 11_520, 11_520),
            splits={
                "train": (
                    _file(
                        "ett/ETTm1.csv.gz",
                        10_360_719,
                        "ca45123028f1acad120b5f971ca64594746aa9b881d56cdff589ee9aa6cdbd8f",
                        "6ce1759b1a18e3328421d5d75fadcb316c449fcd7cec32820c8dafda71986c9e",
                        address=_ETT + "ETTm1.csv",
                    ),
                ),
            },
        ),
        SeriesSet(
            name="exchange",
            about="Exchange rates of 8 currencies, daily, 1990 to 2016: 7,588 rows without header and dates",
            licence="not stated",
            period=1,
            origin="exchange_rate.txt.gz of github.com/laiguokun/multivariate-time-series-data",
            splits={
                "train": (
                    _file(
                        "exchange_rate/exchange_rate.txt.gz",
                        546_336,
                        "6a4fbb561dcdee43f071a83badbeec9223a335552278348656738b556f1c2e9d",
                        "0127465b51e3cd3c360f8eb2be30cfd294689a2a55903eb8245aafc396626c7f",
                    ),
                ),
            },
        ),
        CaptionSet(
            name="flickr8k",
            about="photographs at 96 pixels, squashed to squares, with five captions each; 6,000 / 1,000 (dev)",
            licence="Flickr terms, research only",
            origin="of Flickr8k, which its authors give out for research, pictures squashed to 96 pixels",
            splits={
                "train": (
                    _file(
                        "flickr8k/images96_train.npz",
                        18_700_652,
                        "7b6a099c5bbb5e451d9e2bd8cdc4252e5258cb79eed4dc310820b293b7ed1c00",
                    ),
                    _file(
                        "flickr8k/Flickr_8k.trainImages.txt",
                        154_678,
                        "e330ddd5156a4c2d2e2b67bc587e70e588f2d132bd8a10dc54dcb71e58115d8e",
                    ),
                    _FLICKR8K_CAPTIONS,
                ),
                "valid": (
                    _file(
                        "flickr8k/images96_dev.npz",
                        3_129_565,
                        "43addf1dda6c93e51a8ed6eba4b9e962a4ed270246525531bde99b671f8a1802",
                    ),
                    _file(
                        "flickr8k/Flickr_8k.devImages.txt",
                        25_801,
                        "18ba829f47f6df1cb830bf7f0506e2ddf333818925299babbd1bbcaf50fdc504",
                    ),
                    _FLICKR8K_CAPTIONS,
                ),
            },
        ),
        LabelSet(
            name="mnist",
            about="70,000 handwritten digits of 28 × 28 pixels, ten labels; 60,000 / 10,000",
            licence="not stated",
            form="idx",
            splits={
                "train": (
                    _file(
                        "mnist/train-images-idx3-ubyte.gz",
                        47_040_016,
                        "0b367032e93c5d0cea0925647cfdb18614af8ee15f83e6f2fc2ad904a6835971",
                        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                        address=_MNIST + "train-images-idx3-ubyte.gz",
                    ),
                    _file(
                        "mnist/train-labels-idx1-ubyte.gz",
                        60_008,
                        "1787548bbe0bff1ec2ecdc0ef292b02df999e2d1a6002d27500982c652b17203",
                        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                        address=_MNIST + "train-labels-idx1-ubyte.gz",
                    ),
                ),
                "test": (
                    _file(
                        "mnist/t10k-images-idx3-ubyte.gz",
                        7_840_016,
                        "1a1a05eab793c14bb050b398624a11b0ffd1a2953baed553b1b9bd079e2a20be",
                        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                        address=_MNIST + "t10k-images-idx3-ubyte.gz",
                    ),
                    _file(
                        "mnist/t10k-labels-idx1-ubyte.gz",
                        10_008,
                        "b91679a0acfe4ba0e50a2437a903084cba1f5f92592b016a25a7dfd00455798b",
                        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
                        address=_MNIST + "t10k-labels-idx1-ubyte.gz",
                    ),
                ),
            },
        ),
        LabelSet(
            name="sst2",
            about="sentences of film reviews, good (1) or bad (0), as lower-case words; 6,920 / 872",
            licence="not stated",
            form="table",
            splits={
                "train": (
                    _file(
                        "sst2/train.tsv.gz",
                        720_259,
                        "a8bb76d586d14567aa086e896db7e9d0425a8bd39de6648e21cca95ee21ffca1",
                        "ec192f833a64da08f475488a77b0d0b47db47acd0f458bd18433fc793b569920",
                        address=_SST2 + "train.tsv",
                    ),
                ),
                # its dev part is all that is public beside train: held as the test part, so that it is used once
                "test": (
                    _file(
                        "sst2/dev.tsv.gz",
                        92_057,
                        "576a7aae83b8e7f3790f381d41c9ab38d9cd3fe5e1ad2afd0d313f20f14bf2e6",
                        "eddea6b39e601dd4e7a672b53cc40fdf6019fa80522f351206c24340ca5d9359",
                        address=_SST2 + "dev.tsv",
                    ),
                ),
            },
        ),
        SoundSet(
            name="fsdd",
            about="the Free Spoken Digit Dataset: ten digits in English, 50 times by each of six speakers, at 8 kHz",
            licence="CC BY-SA 4.0",
            origin="recordings of commit 26eb9aaf of github.com/Jakobovski/free-spoken-digit-dataset",
            folder="fsdd/recordings",
            count=3_000,
            size=21_128_848,
            sha256="dbd573d7cafe79c4b49f65718115e1304e24e067fa39eff18a660dc6cb9c360f",
            pattern="{label}_{speaker}_{take}",
            split=lambda take: "test" if take < 5 else "valid" if take < 10 else "train",
            held="takes 5 to 9 of each digit and speaker",
        ),
    )
}

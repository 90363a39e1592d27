"""The limits of what is read from files, in one place: what lies beyond is refused in a line that names the limit."""

LINE = 1 << 26  # characters of a line of a table
SENTENCE = 1 << 20  # characters of a sentence
COLUMNS = 1 << 16  # of a table of numbers
LABEL = 1_000  # characters of a label
TIME = 40  # characters of a time in a table
TIME_EXPONENT = 30  # a time that is a number lies between 10^-30 and 10^30
PACKED_RATIO = 200  # bytes that one packed byte may become; text becomes about 3 to 10, a bomb 1,000
PACKED_FREE = 1 << 26  # unpacked bytes up to which the ratio does not matter
PICTURE_PIXELS = 50_000_000  # of a picture that is read whole
PICTURE_BYTES = 1 << 29  # of a picture's file
FILM_FRAMES = 10_000  # of a film's file or folder
FILM_PIXELS = 1 << 30  # of all its frames together, as large as the film
CAPTION = 10_000  # characters of a caption
VOCABULARY = 1 << 21  # tokens: more than there are characters
SOUND_RATES = (4_000, 192_000)  # samples a second
SOUND_CHANNELS = 64
SOUND_SECONDS = 3_600  # of one recording
SOUND_BYTES = 1 << 32  # of a recording's file
